// Bytes as a tokenizer.json: it is refused, or it encodes, decodes and streams without harm.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace {

constexpr std::string_view kText =
    "Hi  <|im_end|> caf\u00E9 e\u0301 12 \xE4\xB8\xAD\n\t'\xC5\xBF</s>";

void use(const fasteep::Tokenizer& tokenizer) {
  fasteep::TextRange runs[] = {{4, 14}};
  auto ids = tokenizer.encode(kText, {.add_special_tokens = true, .input_runs = runs});
  if (!ids) return;
  CHECK(fasteep::is_valid_utf8(tokenizer.decode(*ids, false)));
  fasteep::Detokenizer detokenizer(tokenizer, true);
  for (fasteep::TokenId id : *ids) {
    CHECK(id >= 0 && id < tokenizer.vocab_size(), "encode gave the id {}", id);
    CHECK(fasteep::is_valid_utf8(detokenizer.push(id)));
  }
  CHECK(fasteep::is_valid_utf8(detokenizer.finish()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (auto tokenizer = fasteep::Tokenizer::from_json(bytes)) use(*tokenizer);
  (void)fasteep::Tokenizer::from_json(R"({"model": {"vocab": {"a": 0}, "merges": []}})", bytes);
  return 0;
}
