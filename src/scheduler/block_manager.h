#pragma once
// Which KV blocks are used, cached or free, and which cached block holds which prefix. Numbers
// only; the bytes belong to memory/kv_blocks.h.
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace fasteep {

// Names the content of all tokens from position 0 to the end of a published block. Never given
// twice: what bears the same PrefixId is the same, which a 64-bit hash alone cannot promise.
using PrefixId = Id<struct PrefixTag, uint64_t>;
inline constexpr PrefixId kEmptyPrefix{0};  // before the first block

struct PrefixBlock {
  BlockId block;
  PrefixId prefix;
};

// Every block below the limit is used (referenced), cached (published, unreferenced, reusable) or
// free. When the limit was lowered, used blocks from it on stay what they are until their last
// reference goes or they are moved; no more than `limit` blocks are used in all, so that there is
// always room to move them to.
// Threads: the scheduler's.
class BlockManager {
 public:
  using HashFunction = uint64_t (*)(uint64_t parent_hash, std::span<const TokenId> tokens);

  // hash: block_hash(); tests give a weak one to force collisions.
  BlockManager(int num_blocks, int block_tokens, HashFunction hash);

  int num_blocks() const { return limit_; }
  int block_tokens() const { return block_tokens_; }
  int num_used() const { return num_used_; }
  int num_cached() const { return num_cached_; }
  int num_free() const { return static_cast<int>(free_.size()); }
  int num_available() const { return limit_ - num_used_; }  // free or cached, not kept for a move
  bool is_used(BlockId block) const { return at(block).references > 0; }

  // Blocks from `limit` on are given out no more; free and cached ones are forgotten. A higher
  // limit adds free blocks. No more than `limit` may be used.
  void set_limit(int limit);
  int num_above_limit() const { return num_above_limit_; }  // used blocks from the limit on
  // Exchanges a used block from the limit on for one below it, which has its references and its
  // place in the index from now on. The caller copies the bytes and tells the holders.
  BlockId move_below_limit(BlockId from);

  // A private block with one reference: a free one, else the cached one unused for longest, which
  // is then forgotten. One must be available.
  BlockId allocate();
  // One more reference to a used or cached block.
  void retain(BlockId block);
  // One reference less. The last one leaves a published block cached, a private one free.
  void release(BlockId block);
  // The same, but the last reference leaves the block free: its content is forgotten.
  void discard(BlockId block);

  uint64_t hash(uint64_t parent_hash, std::span<const TokenId> tokens) const {
    return hash_(parent_hash, tokens);
  }
  // The block that holds `tokens` after `parent`, the tokens compared one by one.
  std::optional<PrefixBlock> find(PrefixId parent, uint64_t hash,
                                  std::span<const TokenId> tokens) const;
  // Makes a full private block findable. If another block holds the same already, the caller's
  // reference moves to that one and its own block is free. Nothing if a used block of another
  // content has the hash: the block stays private.
  std::optional<PrefixBlock> publish(BlockId block, PrefixId parent, uint64_t hash,
                                     std::span<const TokenId> tokens);

 private:
  struct Block {
    int references = 0;
    bool is_published = false;
    PrefixId parent, prefix;  // valid if published, like hash
    uint64_t hash = 0;
    int older = -1, newer = -1;  // neighbours in the list of cached blocks
  };

  const Block& at(BlockId block) const;
  Block& at(BlockId block) { return const_cast<Block&>(std::as_const(*this).at(block)); }
  std::span<TokenId> tokens_of(BlockId block);
  std::span<const TokenId> tokens_of(BlockId block) const;
  bool is_below_limit(BlockId block) const { return block.value < limit_; }
  BlockId take_unused();
  bool drop_reference(BlockId block);
  void set_free(BlockId block);
  bool make_room_in_index(uint64_t hash);
  void forget(BlockId block);
  void push_newest(BlockId block);
  void unlink(BlockId block);

  int limit_;
  int block_tokens_;
  HashFunction hash_;
  std::vector<Block> blocks_;    // as many as the limit ever was
  std::vector<TokenId> tokens_;  // [blocks_.size(), block_tokens], valid if published
  std::vector<BlockId> free_;    // below the limit; the last one is taken first
  std::unordered_map<uint64_t, BlockId> index_;  // hash -> published block
  int num_used_ = 0, num_cached_ = 0, num_above_limit_ = 0;
  int oldest_ = -1, newest_ = -1;  // ends of the list of cached blocks, by last release
  uint64_t last_prefix_ = 0;
};

}  // namespace fasteep
