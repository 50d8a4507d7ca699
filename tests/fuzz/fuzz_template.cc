// Arbitrary bytes as a chat template, rendered with a small chat: an error or a text within the
// limits, never a crash, a hang or a leak.
#include "base/check.h"
#include "text/jinja_interpreter.h"

namespace {
using Json = nlohmann::ordered_json;

fasteep::jinja::Limits small_limits() {
  fasteep::jinja::Limits limits;
  limits.max_steps = 20'000;
  limits.max_text_bytes = 1 << 16;
  return limits;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using fasteep::jinja::Template;
  static const auto* messages = new Json(Json::parse(
      R"([{"role": "system", "content": "S"}, {"role": "user", "content": "a <b> é"},
          {"role": "assistant", "content": null,
           "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, true]}}}]}])"));
  static const auto* flag = new Json(true);
  const auto parsed = Template::parse({reinterpret_cast<const char*>(data), size}, small_limits());
  if (!parsed) return 0;
  const auto text = parsed.value().render(
      {{"messages", messages, true}, {"add_generation_prompt", flag, true}}, std::tm{});
  if (!text) return 0;
  CHECK(text.value().bytes.size() <= small_limits().max_text_bytes, "the text is too long");
  std::size_t end = 0;
  for (const fasteep::TextRange& run : text.value().input_runs) {
    CHECK(run.begin >= end && run.end > run.begin, "marks out of order");
    end = run.end;
  }
  CHECK(end <= text.value().bytes.size(), "a mark past the text");
  return 0;
}
