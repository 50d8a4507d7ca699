#pragma once
// What each token id stands for in text: the vocabulary, seen through the tokenizer's decoder.
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/tokenizer_json.h"
#include "text/unicode.h"

namespace fasteep {

// Immutable: any thread.
class TokenTable {
 public:
  struct Token {
    std::string bytes;    // may be a part of a character only
    bool exists = false;  // ids between tokens, and padding rows of a model, have no text
    bool is_special = false;
    bool is_byte = false;  // "<0xNN>" of a vocabulary with byte fallback
  };

  // decoder: the "decoder" of tokenizer.json, or null.
  // Errors: kInvalidInput, an unknown decoder, or ids that contradict each other.
  static Result<TokenTable> create(const Json* decoder, const Vocabulary& vocabulary,
                                   const std::vector<AddedToken>& added);

  // The token, or nullptr if the id has no text.
  const Token* find(TokenId id) const;
  int size() const { return static_cast<int>(tokens_.size()); }  // the highest id with text, + 1

  // The bytes of a token as the first of a text, which the Metaspace decoder treats apart.
  const std::string& bytes_of(TokenId id, bool is_first) const;

  // The reference's full decode. Ids without text count as nothing.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  bool joins_with_spaces() const { return joins_with_spaces_; }
  Replacement replacement() const {
    return byte_fallback_ ? Replacement::kPerByte : Replacement::kPerSubpart;
  }

  // From the start of a whole text, up to strip_count() copies of strip_text() are dropped.
  const std::string& strip_text() const { return strip_text_; }
  int strip_count() const { return strip_count_; }

 private:
  class Builder;
  std::vector<Token> tokens_;                             // by id
  std::unordered_map<TokenId, std::string> first_bytes_;  // where they differ from Token::bytes
  bool joins_with_spaces_ = false;                        // no decoder at all
  bool byte_fallback_ = false;
  std::string strip_text_;
  int strip_count_ = 0;
};

}  // namespace fasteep
