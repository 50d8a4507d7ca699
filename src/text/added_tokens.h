#pragma once
// Tokens that stand outside the BPE model ("<|im_end|>"): read from the files, found in texts.
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/text_range.h"
#include "text/tokenizer_json.h"

namespace fasteep {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // swallows white space on its left
  bool rstrip = false;       // and on its right
  bool normalized = false;   // matched in the normalised text, and not in the raw text
  bool special = false;      // dropped by a decode that skips special tokens
};

// The added_tokens of tokenizer.json and what added_tokens_decoder of tokenizer_config.json adds to
// them, by id. config may be null. Errors: kInvalidInput, e.g. one id with two contents.
Result<std::vector<AddedToken>> read_added_tokens(const Json& tokenizer, const Json* config);

// A part of a text: an added token, or a gap between them (token < 0).
struct AddedTokenPart {
  TextRange range;
  TokenId token = -1;
  bool is_gap() const { return token < 0; }
};

// Finds leftmost, then longest, contents. Immutable after the last add(): then any thread.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher();

  // content: what to look for, which for a `normalized` token is its normalised content.
  void add(const AddedToken& token, std::string_view content);

  // The parts of the text from left to right. A token is not matched where it would touch a byte of
  // `closed_ranges` (sorted). Like the reference, a token with rstrip may swallow white space that
  // the next token holds too; both are then reported.
  std::vector<AddedTokenPart> find(std::string_view valid_utf8,
                                   std::span<const TextRange> closed_ranges) const;

  bool is_empty() const { return tokens_.empty(); }

 private:
  struct Node {
    std::vector<std::pair<unsigned char, int>> next;  // byte -> node; few for each node
    int token = -1;                                   // index into tokens_
  };
  struct Match {
    TextRange range;
    int token = -1;  // index into tokens_; -1: none
  };
  int child(int node, unsigned char byte) const;
  Match longest_at(std::string_view text, size_t begin, size_t limit) const;

  std::vector<Node> nodes_;       // a trie of bytes; node 0 is the root
  std::array<int, 256> first_{};  // the root's children, 0: none; most bytes begin no token
  std::vector<AddedToken> tokens_;
};

}  // namespace fasteep
