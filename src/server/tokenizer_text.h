#pragma once
// The model's tokenizer and chat template as the server uses them.
#include <optional>

#include "server/text_model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace fasteep {

// Threads: any.
class TokenizerText final : public TextModel {
 public:
  // Without a template chat requests are refused.
  TokenizerText(Tokenizer tokenizer, std::optional<ChatTemplate> chat_template)
      : tokenizer_(std::move(tokenizer)), template_(std::move(chat_template)) {}

  Result<std::vector<TokenId>> encode(std::string_view text,
                                      bool add_special_tokens) const override;
  Result<std::vector<TokenId>> encode_chat(const ChatPrompt& prompt) const override;
  std::string decode(std::span<const TokenId> tokens, bool skip_special_tokens) const override;
  std::string token_bytes(TokenId token) const override { return tokenizer_.token_bytes(token); }
  std::unique_ptr<TokenStream> stream(bool skip_special_tokens) const override;

 private:
  Tokenizer tokenizer_;
  std::optional<ChatTemplate> template_;
};

}  // namespace fasteep
