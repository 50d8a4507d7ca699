#pragma once
// One request inside the scheduler: its tokens, how far they are computed, and the blocks that hold
// the computed ones.
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduler/block_manager.h"
#include "scheduler/scheduler.h"

namespace fasteep {

// Positions 0 .. num_computed() - 1 have KV in blocks(). The blocks wholly below num_computed() are
// published (others may share them) and never written again.
// Threads: the scheduler's. It holds references to blocks until release() or discard().
class Sequence {
 public:
  // arrival: its place in the order of all submissions. The request was checked by submit().
  Sequence(SequenceRequest request, uint64_t arrival, bool use_prefix_cache);

  const SequenceRequest& request() const { return request_; }  // its prompt has moved to tokens()
  RequestId id() const { return request_.id; }
  uint64_t arrival() const { return arrival_; }
  std::span<const TokenId> tokens() const { return tokens_; }  // prompt, then generated
  int length() const { return static_cast<int>(tokens_.size()); }
  int prompt_tokens() const { return prompt_tokens_; }  // without generated ones
  int num_generated() const { return length() - prompt_tokens_; }
  int num_computed() const { return num_computed_; }
  int num_uncomputed() const { return length() - num_computed_; }
  std::span<const BlockId> blocks() const { return blocks_; }

  int planned_rows() const { return planned_rows_; }  // in the plan in flight
  void set_planned_rows(int rows) { planned_rows_ = rows; }
  // What the first admission found in the prefix cache; empty before it. 0 if it came with its KV.
  std::optional<int> cached_prompt_tokens() const { return cached_prompt_tokens_; }

  // Appends a generated token. End: its stop tokens first, then max_tokens or max_model_len.
  SequenceEnd append(TokenId token, int max_model_len);

  // The cached blocks of its longest known prefix. Its last token is left out: it must be computed,
  // because its logits give the next token.
  std::vector<PrefixBlock> find_prefix(const BlockManager& manager);
  // Starts from these blocks. It must hold none yet.
  void adopt_prefix(std::span<const PrefixBlock> prefix, BlockManager& manager);
  // Starts from blocks in which the KV of its first num_computed tokens lies already, computed
  // elsewhere. It must hold none yet, and takes over one reference to each.
  void adopt_computed(std::vector<BlockId> blocks, int num_computed, BlockManager& manager);
  // What it holds has other numbers now.
  void renumber(const std::unordered_map<BlockId, BlockId>& moved);
  // Rows that the blocks it holds and those available could take.
  int rows_that_fit(const BlockManager& manager) const;
  // Allocates blocks for positions below num_computed() + rows. They must be available.
  void allocate_for(int rows, BlockManager& manager);
  // The next `rows` positions are in the blocks now; full blocks are published.
  void mark_computed(int rows, BlockManager& manager);
  // Gives the blocks back: published ones stay cached. Everything is uncomputed again.
  void release(BlockManager& manager);
  // The same, and content that nobody else uses is forgotten.
  void discard(BlockManager& manager);

 private:
  uint64_t hash_of(size_t block_index, const BlockManager& manager);
  std::span<const TokenId> block_tokens(size_t block_index, const BlockManager& manager) const;
  void publish_full_blocks(BlockManager& manager);
  void forget_progress();

  SequenceRequest request_;
  uint64_t arrival_;
  std::vector<TokenId> tokens_;
  int prompt_tokens_;
  int num_computed_ = 0;
  int planned_rows_ = 0;
  std::optional<int> cached_prompt_tokens_;
  std::vector<BlockId> blocks_;
  std::vector<uint64_t> hashes_;    // of leading full blocks; computed once, as they are asked for
  size_t num_published_ = 0;        // leading blocks of blocks_
  PrefixId prefix_ = kEmptyPrefix;  // of the published blocks
  bool is_cacheable_;               // false for good once a hash collision broke its chain
};

// Block hashes from their start, without a sequence: leading tokens of `prompt` in the cache.
int cached_prefix_tokens(const BlockManager& manager, std::span<const TokenId> prompt);

}  // namespace fasteep
