#include "server/tokenizer_text.h"

#include <ctime>

#include "base/clock.h"
#include "text/detokenizer.h"

namespace fasteep {
namespace {

class DetokenizerStream final : public TokenStream {
 public:
  DetokenizerStream(const Tokenizer& tokenizer, bool skip_special)
      : detokenizer_(tokenizer, skip_special) {}
  std::string push(TokenId token) override { return detokenizer_.push(token); }
  std::string finish() override { return detokenizer_.finish(); }

 private:
  Detokenizer detokenizer_;
};

std::tm local_time() {
  const std::time_t now = unix_time_s();
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

}  // namespace

Result<std::vector<TokenId>> TokenizerText::encode(std::string_view text,
                                                   bool add_special_tokens) const {
  return tokenizer_.encode(text, {add_special_tokens, {}});
}

Result<std::vector<TokenId>> TokenizerText::encode_chat(const ChatPrompt& prompt) const {
  if (!template_)
    return invalid_input("the model has no chat template: use /v1/completions")
        .on_field("messages");
  ChatTemplateInput input;
  input.tools = prompt.tools;
  input.documents = prompt.documents;
  input.add_generation_prompt = prompt.add_generation_prompt;
  input.continue_final_message = prompt.continue_final_message;
  input.extra = prompt.template_kwargs;
  input.now = local_time();
  FASTEEP_TRY(const RenderedPrompt rendered, template_->render(prompt.messages, input));
  return tokenizer_.encode(rendered.text, {prompt.add_special_tokens, rendered.input_runs});
}

std::string TokenizerText::decode(std::span<const TokenId> tokens, bool skip_special_tokens) const {
  return tokenizer_.decode(tokens, skip_special_tokens);
}

std::unique_ptr<TokenStream> TokenizerText::stream(bool skip_special_tokens) const {
  return std::make_unique<DetokenizerStream>(tokenizer_, skip_special_tokens);
}

}  // namespace fasteep
