#pragma once
// Text to token ids and back, as the tokenizer.json of a model says.
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/text_range.h"

namespace fasteep {

class TokenTable;

struct EncodeOptions {
  bool add_special_tokens = false;  // BOS and EOS, if the tokenizer has them
  // Byte ranges of the text that a user wrote (sorted, not overlapping). Added tokens are not
  // matched there, so that "<|im_end|>" typed by a user stays text. Empty: they match everywhere.
  std::span<const TextRange> input_runs = {};
};

// Immutable: any thread. Copies share their tables.
class Tokenizer {
 public:
  // Reads tokenizer.json and, if there is one, tokenizer_config.json of a model's folder.
  // Errors: kNotFound, no tokenizer.json; kIo; kInvalidInput, see from_json().
  static Result<Tokenizer> load(const std::filesystem::path& model_folder);

  // Errors: kInvalidInput, a component that is not supported (by its type), no merges, ids that
  // contradict each other. A file that cannot be obeyed in full is refused: it would change ids.
  static Result<Tokenizer> from_json(std::string_view tokenizer_json,
                                     std::string_view tokenizer_config_json = {});

  // Errors: kInvalidInput, the text is not UTF-8.
  Result<std::vector<TokenId>> encode(std::string_view utf8, EncodeOptions options = {}) const;

  // Always valid UTF-8: U+FFFD stands for broken characters. Ids without text count as nothing.
  // skip_special drops tokens that are flagged special.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  // The bytes of one token, which may be a part of a character; "" for an id without text.
  std::string token_bytes(TokenId id) const;

  bool is_special(TokenId id) const;

  // The highest id that has text, + 1. A model may have more rows, as padding.
  int vocab_size() const;

  // The id of a token, as the vocabulary writes it ("Ġthe") or by an added token's content.
  std::optional<TokenId> token_id(std::string_view content) const;

  std::shared_ptr<const TokenTable> table() const;  // for Detokenizer

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;  // shared with streams, which may outlive this object
};

}  // namespace fasteep
