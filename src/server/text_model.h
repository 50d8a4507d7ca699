#pragma once
// What the server needs of the model's text side. tokenizer_text.h is the real one; tests have a
// tokeniser of bytes.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "server/json_limits.h"

namespace fasteep {

// Tokens to text as they come. What push() returns is valid UTF-8.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual std::string push(TokenId token) = 0;
  virtual std::string finish() = 0;  // what was held back for an unfinished character
};

// The parts of a chat request that make its prompt.
struct ChatPrompt {
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools;      // null: none
  OrderedJson documents;  // null: none
  OrderedJson template_kwargs = OrderedJson::object();
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool add_special_tokens = false;
};

// Threads: any (const members only).
class TextModel {
 public:
  virtual ~TextModel() = default;
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              bool add_special_tokens) const = 0;
  // Renders the chat template and encodes the outcome; special tokens typed into a message are
  // text. Errors: kInvalidInput (no template, or the template's own complaint).
  virtual Result<std::vector<TokenId>> encode_chat(const ChatPrompt& prompt) const = 0;
  virtual std::string decode(std::span<const TokenId> tokens, bool skip_special_tokens) const = 0;
  virtual std::string token_bytes(TokenId token) const = 0;  // may be part of a character
  virtual std::unique_ptr<TokenStream> stream(bool skip_special_tokens) const = 0;
};

}  // namespace fasteep
