#include "scheduler/block_manager.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace fasteep {

BlockManager::BlockManager(int num_blocks, int block_tokens, HashFunction hash)
    : limit_(0), block_tokens_(block_tokens), hash_(hash) {
  CHECK(num_blocks > 0 && block_tokens > 0, "{} KV blocks of {} tokens", num_blocks, block_tokens);
  set_limit(num_blocks);
}

void BlockManager::set_limit(int limit) {
  CHECK(limit > 0 && limit >= num_used_, "a limit of {} KV blocks, {} are used", limit, num_used_);
  for (int b = limit; b < limit_; ++b) {
    const BlockId block(b);
    if (is_used(block) || !at(block).is_published) continue;
    unlink(block);
    forget(block);
  }
  std::erase_if(free_, [limit](BlockId block) { return block.value >= limit; });
  const size_t count = std::max(blocks_.size(), static_cast<size_t>(limit));
  blocks_.resize(count);
  tokens_.resize(count * static_cast<size_t>(block_tokens_));
  std::vector<BlockId> added;  // taken after those that were free before, the lowest first
  for (int b = limit - 1; b >= limit_; --b)
    if (!is_used(BlockId(b))) added.push_back(BlockId(b));
  free_.insert(free_.begin(), added.begin(), added.end());
  limit_ = limit;
  num_above_limit_ = static_cast<int>(std::count_if(
      blocks_.begin() + limit, blocks_.end(), [](const Block& b) { return b.references > 0; }));
}

BlockId BlockManager::move_below_limit(BlockId from) {
  CHECK(is_used(from) && !is_below_limit(from), "KV block {} need not move below {}", from, limit_);
  const BlockId to = take_unused();
  at(to) = at(from);
  if (at(to).is_published) {
    index_.at(at(to).hash) = to;
    std::ranges::copy(tokens_of(from), tokens_of(to).begin());
  }
  at(from) = {};
  --num_above_limit_;
  return to;
}

const BlockManager::Block& BlockManager::at(BlockId block) const {
  CHECK(block.value >= 0 && block.value < std::ssize(blocks_), "KV block {} of {}", block,
        blocks_.size());
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
  const BlockId block = take_unused();
  at(block).references = 1;
  ++num_used_;
  return block;
}

BlockId BlockManager::take_unused() {
  if (free_.empty()) {
    const BlockId evicted(oldest_);
    unlink(evicted);
    forget(evicted);
    return evicted;
  }
  const BlockId block = free_.back();
  free_.pop_back();
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
  if (!is_below_limit(block)) --num_above_limit_;
  return true;
}

void BlockManager::release(BlockId block) {
  if (!drop_reference(block)) return;
  if (at(block).is_published && is_below_limit(block)) {
    push_newest(block);
  } else {
    set_free(block);
  }
}

void BlockManager::discard(BlockId block) {
  if (drop_reference(block)) set_free(block);
}

// Not used and not cached. From the limit on it is gone.
void BlockManager::set_free(BlockId block) {
  if (at(block).is_published) forget(block);
  if (is_below_limit(block)) free_.push_back(block);
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
  set_free(holder);
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
