#include "engine/prefix_index.h"

#include "scheduler/scheduler.h"

namespace fasteep {

void PrefixIndex::touch(uint64_t hash, RankId rank) {
  auto [found, is_new] = blocks_.try_emplace(hash);
  Block& block = found->second;
  if (is_new) {
    recent_.push_front(hash);
    block.place = recent_.begin();
  } else {
    recent_.splice(recent_.begin(), recent_, block.place);
  }
  block.ranks.set(static_cast<size_t>(rank.value));
}

void PrefixIndex::add(std::span<const TokenId> tokens, RankId rank) {
  uint64_t hash = 0;
  for (size_t at = 0; at + block_tokens_ <= tokens.size(); at += block_tokens_) {
    hash = block_hash(hash, tokens.subspan(at, block_tokens_));
    touch(hash, rank);
  }
  while (blocks_.size() > max_blocks_) {
    blocks_.erase(recent_.back());
    recent_.pop_back();
  }
}

void PrefixIndex::remove_rank(RankId rank) {
  for (auto& [hash, block] : blocks_) block.ranks.reset(static_cast<size_t>(rank.value));
}

std::vector<int> PrefixIndex::cached_tokens(std::span<const TokenId> prompt) const {
  std::vector<int> cached(kMaxRanks, 0);
  Ranks so_far;
  so_far.set();
  uint64_t hash = 0;
  for (size_t at = 0; at + block_tokens_ <= prompt.size(); at += block_tokens_) {
    hash = block_hash(hash, prompt.subspan(at, block_tokens_));
    const auto found = blocks_.find(hash);
    if (found == blocks_.end()) break;
    so_far &= found->second.ranks;
    if (so_far.none()) break;
    for (size_t rank = 0; rank < cached.size(); ++rank) {
      if (so_far[rank]) cached[rank] = static_cast<int>(at + block_tokens_);
    }
  }
  return cached;
}

}  // namespace fasteep
