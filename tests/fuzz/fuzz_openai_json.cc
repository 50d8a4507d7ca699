// Bodies of the OpenAI API from strangers: parsed into a request or refused, never a crash.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/openai_request.h"

namespace {

// Only parsing is under test: no text is ever tokenised.
class NoText final : public fasteep::TextModel {
 public:
  using Tokens = fasteep::Result<std::vector<fasteep::TokenId>>;
  Tokens encode(std::string_view, bool) const override { return none(); }
  Tokens encode_chat(const fasteep::ChatPrompt&) const override { return none(); }
  std::string decode(std::span<const fasteep::TokenId>, bool) const override { return {}; }
  std::string token_bytes(fasteep::TokenId) const override { return {}; }
  std::unique_ptr<fasteep::TokenStream> stream(bool) const override { return nullptr; }

 private:
  static fasteep::Error none() { return fasteep::invalid_input("no text here"); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const NoText text;
  static const fasteep::ServedModel model{{"m"}, 4096, 1000, text, {}, {2}};
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto json = fasteep::parse_json(body);
  if (!json) return 0;
  (void)fasteep::to_text(*json);
  (void)fasteep::parse_completion_request(*json, model).has_value();
  (void)fasteep::parse_chat_request(*json, model).has_value();
  (void)fasteep::parse_tokenize_request(*json, model).has_value();
  (void)fasteep::parse_detokenize_request(*json, model).has_value();
  return 0;
}
