#include "scheduler/block_manager.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace fasteep {

BlockManager::BlockManager(int num_blocks, int block_tokens, HashFunction hash)
    : block_tokens_(block_tokens), hash_(hash) {
  CHECK(num_blocks > 0 && block_tokens > 0, "{} KV blocks of {} tokens", num_blocks, block_tokens);
  const size_t count = static_cast<size_t>(num_blocks);
  blocks_.resize(count);
  tokens_.resize(count * static_cast<size_t>(block_tokens));
  index_.reserve(count);
  for (int b = num_blocks - 1; b >= 0; --b) free_.push_back(BlockId(b));  // block 0 is taken first
}

const BlockManager::Block& BlockManager::at(BlockId block) const {
  CHECK(block.value >= 0 && block.value < num_blocks(), "KV block {} of {}", block, num_blocks());
  return blocks_[static_cast<size_t>(block.value)];
}

std::span<TokenId> BlockManager::tokens_of(BlockId block) {
  const size_t size = static_cast<size_t>(block_tokens_);
  return std::span(tokens_).subspan(static_cast<size_t>(block.value) * size, size);
}

std::span<const TokenId> BlockManager::tokens_of(BlockId block) const {
  const size_t size = static_cast<size_t>(block_tokens_);
  return std::span(tokens_).subspan(static_cast<size_t>(block.value) * size, size);
}

BlockId BlockManager::allocate() {
  CHECK(num_available() > 0, "all {} KV blocks are used", num_blocks());
  if (free_.empty()) {
    const BlockId evicted(oldest_);
    unlink(evicted);
    forget(evicted);
    free_.push_back(evicted);
  }
  const BlockId block = free_.back();
  free_.pop_back();
  at(block).references = 1;
  ++num_used_;
  return block;
}

void BlockManager::retain(BlockId block) {
  Block& b = at(block);
  CHECK(b.references > 0 || b.is_published, "KV block {} is free", block);
  if (b.references++ > 0) return;
  unlink(block);
  ++num_used_;
}

// True if that was the last one.
bool BlockManager::drop_reference(BlockId block) {
  Block& b = at(block);
  CHECK(b.references > 0, "KV block {} has no reference to release", block);
  if (--b.references > 0) return false;
  --num_used_;
  return true;
}

void BlockManager::release(BlockId block) {
  if (!drop_reference(block)) return;
  if (at(block).is_published) {
    push_newest(block);
  } else {
    free_.push_back(block);
  }
}

void BlockManager::discard(BlockId block) {
  if (!drop_reference(block)) return;
  if (at(block).is_published) forget(block);
  free_.push_back(block);
}

std::optional<PrefixBlock> BlockManager::find(PrefixId parent, uint64_t hash,
                                              std::span<const TokenId> tokens) const {
  const auto found = index_.find(hash);
  if (found == index_.end()) return std::nullopt;
  const Block& b = at(found->second);
  if (b.parent != parent || !std::ranges::equal(tokens_of(found->second), tokens))
    return std::nullopt;
  return PrefixBlock{found->second, b.prefix};
}

std::optional<PrefixBlock> BlockManager::publish(BlockId block, PrefixId parent, uint64_t hash,
                                                 std::span<const TokenId> tokens) {
  Block& b = at(block);
  CHECK(b.references == 1 && !b.is_published, "KV block {} is not private", block);
  CHECK(std::ssize(tokens) == block_tokens_, "{} tokens in a block", tokens.size());
  if (const auto same = find(parent, hash, tokens)) {
    retain(same->block);
    release(block);
    return same;
  }
  if (!make_room_in_index(hash)) return std::nullopt;
  index_.emplace(hash, block);
  b.is_published = true;
  b.parent = parent;
  b.prefix = PrefixId(++last_prefix_);
  b.hash = hash;
  std::ranges::copy(tokens, tokens_of(block).begin());
  return PrefixBlock{block, b.prefix};
}

// A cached block may have the hash: by collision, or because its own prefix was discarded, and then
// nothing can find it any more. The newcomer is worth more.
bool BlockManager::make_room_in_index(uint64_t hash) {
  const auto found = index_.find(hash);
  if (found == index_.end()) return true;
  const BlockId holder = found->second;
  if (is_used(holder)) return false;
  unlink(holder);
  forget(holder);
  free_.push_back(holder);
  return true;
}

void BlockManager::forget(BlockId block) {
  index_.erase(at(block).hash);
  at(block).is_published = false;
}

void BlockManager::push_newest(BlockId block) {
  Block& b = at(block);
  b.older = newest_;
  b.newer = -1;
  (newest_ < 0 ? oldest_ : at(BlockId(newest_)).newer) = block.value;
  newest_ = block.value;
  ++num_cached_;
}

void BlockManager::unlink(BlockId block) {
  const Block& b = at(block);
  (b.older < 0 ? oldest_ : at(BlockId(b.older)).newer) = b.newer;
  (b.newer < 0 ? newest_ : at(BlockId(b.newer)).older) = b.older;
  --num_cached_;
}

}  // namespace fasteep
