#pragma once
// Byte-pair encoding of one piece: merge the adjacent pair of lowest rank, leftmost on ties.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer_json.h"

namespace fasteep {

// Lets a map with string keys be searched by string_view without a copy.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Vocabulary = std::unordered_map<std::string, TokenId, StringHash, std::equal_to<>>;

// The merges: (left id, right id) -> (rank, id of the merged token). Open addressing, because this
// look-up is what encoding spends its time on.
class MergeTable {
 public:
  struct Merge {
    int32_t rank = -1;  // lower merges first; -1: no such merge
    TokenId merged = 0;
    bool exists() const { return rank >= 0; }
  };

  explicit MergeTable(size_t num_merges = 0);
  void put(TokenId left, TokenId right, Merge merge);  // a repeated pair keeps the last
  Merge find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no pair: ids are not negative
  size_t slot_of(uint64_t key) const;

  std::vector<Slot> slots_;  // a power of two, at most half full
};

// Immutable after from_json(): any thread.
class Bpe {
 public:
  // model: the "model" of tokenizer.json. is_byte_level: pieces are bytes, and the vocabulary
  // writes them in the byte-level alphabet. Errors: kInvalidInput.
  static Result<Bpe> from_json(const Json& model, bool is_byte_level);

  // Appends the ids of one piece. O(n log n) in its bytes. Characters that the vocabulary lacks
  // become byte tokens, the unknown token or nothing, as the file says.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Bpe() = default;
  Result<void> read_vocabulary(const Json& model);
  Result<void> read_merges(const Json& model);
  Result<void> read_unknown(const Json& model);
  void find_byte_tokens();
  void decide_marker_cuts(const std::vector<std::string_view>& merged);
  std::optional<TokenId> find(std::string_view token) const;

  void encode_uncut(std::string_view piece, std::vector<TokenId>& out) const;
  void append_symbols(std::string_view piece, std::vector<TokenId>& symbols) const;
  bool append_byte_tokens(std::string_view character, std::vector<TokenId>& symbols) const;
  void merge_short(std::vector<TokenId>& symbols) const;
  void merge_long(std::vector<TokenId>& symbols) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  bool is_byte_level_ = false;
  bool ignore_merges_ = false;  // a piece that is a token is that token, whatever merges say
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  bool cut_at_marker_ = false;  // no merge crosses from another character to "▁": cut there
  std::optional<TokenId> unknown_;
  // Byte level: the token of each byte. Otherwise: the token "<0xNN>". -1: none.
  std::array<TokenId, 256> byte_tokens_{};
};

}  // namespace fasteep
