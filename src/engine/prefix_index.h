#pragma once
// Which ranks probably have a prompt's prefix in their KV caches. Approximate: ranks evict blocks
// without saying so, and a wrong guess costs a prefill, never a wrong token.
#include <bitset>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "rank/rank_settings.h"

namespace fasteep {

// Pure. Threads: one.
class PrefixIndex {
 public:
  // Remembers the `max_blocks` blocks that were used last.
  PrefixIndex(int block_tokens, size_t max_blocks)
      : block_tokens_(static_cast<size_t>(block_tokens)), max_blocks_(max_blocks) {}

  void add(std::span<const TokenId> tokens, RankId rank);
  void remove_rank(RankId rank);
  // [kMaxRanks]: leading tokens of `prompt`, in whole blocks, that each rank has.
  std::vector<int> cached_tokens(std::span<const TokenId> prompt) const;
  size_t num_blocks() const { return blocks_.size(); }

 private:
  using Ranks = std::bitset<kMaxRanks>;
  struct Block {
    Ranks ranks;
    std::list<uint64_t>::iterator place;  // in recent_
  };
  void touch(uint64_t hash, RankId rank);

  size_t block_tokens_, max_blocks_;
  std::unordered_map<uint64_t, Block> blocks_;  // by chained hash
  std::list<uint64_t> recent_;                  // last used first
};

}  // namespace fasteep
