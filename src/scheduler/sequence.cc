#include "scheduler/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace fasteep {

Sequence::Sequence(SequenceRequest request, uint64_t arrival, bool use_prefix_cache)
    : request_(std::move(request)),
      arrival_(arrival),
      tokens_(std::move(request_.prompt)),
      prompt_tokens_(length() - request_.num_delivered),
      is_cacheable_(use_prefix_cache) {}

SequenceEnd Sequence::append(TokenId token, int max_model_len) {
  tokens_.push_back(token);
  const std::vector<TokenId>& stops = request_.stop_token_ids;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return SequenceEnd::kStop;
  if (num_generated() >= request_.max_tokens || length() >= max_model_len)
    return SequenceEnd::kLength;
  return SequenceEnd::kNone;
}

std::span<const TokenId> Sequence::block_tokens(size_t block_index,
                                                const BlockManager& manager) const {
  const size_t size = static_cast<size_t>(manager.block_tokens());
  return tokens().subspan(block_index * size, size);
}

uint64_t Sequence::hash_of(size_t block_index, const BlockManager& manager) {
  while (hashes_.size() <= block_index) {
    const uint64_t parent = hashes_.empty() ? 0 : hashes_.back();
    hashes_.push_back(manager.hash(parent, block_tokens(hashes_.size(), manager)));
  }
  return hashes_[block_index];
}

std::vector<PrefixBlock> Sequence::find_prefix(const BlockManager& manager) {
  std::vector<PrefixBlock> found;
  if (!is_cacheable_) return found;
  const size_t most = static_cast<size_t>((length() - 1) / manager.block_tokens());
  PrefixId parent = kEmptyPrefix;
  while (found.size() < most) {
    const size_t i = found.size();
    const auto block = manager.find(parent, hash_of(i, manager), block_tokens(i, manager));
    if (!block) break;
    found.push_back(*block);
    parent = block->prefix;
  }
  return found;
}

void Sequence::adopt_prefix(std::span<const PrefixBlock> prefix, BlockManager& manager) {
  CHECK(blocks_.empty() && num_computed_ == 0, "request {} holds blocks already", id());
  for (const PrefixBlock& block : prefix) {
    manager.retain(block.block);
    blocks_.push_back(block.block);
    prefix_ = block.prefix;
  }
  num_published_ = prefix.size();
  num_computed_ = static_cast<int>(prefix.size()) * manager.block_tokens();
  if (!cached_prompt_tokens_) cached_prompt_tokens_ = std::min(num_computed_, prompt_tokens_);
}

void Sequence::adopt_computed(std::vector<BlockId> blocks, int num_computed,
                              BlockManager& manager) {
  CHECK(blocks_.empty() && num_computed_ == 0, "request {} holds blocks already", id());
  blocks_ = std::move(blocks);
  cached_prompt_tokens_ = 0;
  mark_computed(num_computed, manager);
}

void Sequence::renumber(const std::unordered_map<BlockId, BlockId>& moved) {
  for (BlockId& block : blocks_)
    if (const auto found = moved.find(block); found != moved.end()) block = found->second;
}

int Sequence::rows_that_fit(const BlockManager& manager) const {
  const int64_t blocks = std::ssize(blocks_) + manager.num_available();
  const int64_t rows = blocks * manager.block_tokens() - num_computed_;
  return static_cast<int>(std::min<int64_t>(rows, num_uncomputed()));
}

void Sequence::allocate_for(int rows, BlockManager& manager) {
  const int64_t positions = num_computed_ + rows;
  while (std::ssize(blocks_) * manager.block_tokens() < positions)
    blocks_.push_back(manager.allocate());
}

void Sequence::mark_computed(int rows, BlockManager& manager) {
  num_computed_ += rows;
  CHECK(num_computed_ <= length(), "request {}: {} of {} tokens computed", id(), num_computed_,
        length());
  publish_full_blocks(manager);
}

void Sequence::publish_full_blocks(BlockManager& manager) {
  const size_t num_full = static_cast<size_t>(num_computed_ / manager.block_tokens());
  for (; is_cacheable_ && num_published_ < num_full; ++num_published_) {
    const size_t i = num_published_;
    const auto published =
        manager.publish(blocks_[i], prefix_, hash_of(i, manager), block_tokens(i, manager));
    is_cacheable_ = published.has_value();
    if (!published) return;
    blocks_[i] = published->block;
    prefix_ = published->prefix;
  }
}

// Later blocks are given back first: they are useless without the earlier ones, so they shall be
// evicted first.
void Sequence::release(BlockManager& manager) {
  for (size_t i = blocks_.size(); i-- > 0;) manager.release(blocks_[i]);
  forget_progress();
}

void Sequence::discard(BlockManager& manager) {
  for (size_t i = blocks_.size(); i-- > 0;) manager.discard(blocks_[i]);
  forget_progress();
}

void Sequence::forget_progress() {
  blocks_.clear();
  num_published_ = 0;
  prefix_ = kEmptyPrefix;
  num_computed_ = 0;
  planned_rows_ = 0;
}

int cached_prefix_tokens(const BlockManager& manager, std::span<const TokenId> prompt) {
  const size_t size = static_cast<size_t>(manager.block_tokens());
  PrefixId parent = kEmptyPrefix;
  uint64_t hash = 0;
  size_t known = 0;
  for (; known + size <= prompt.size(); known += size) {
    const auto tokens = prompt.subspan(known, size);
    hash = manager.hash(hash, tokens);
    const auto block = manager.find(parent, hash, tokens);
    if (!block) break;
    parent = block->prefix;
  }
  return static_cast<int>(known);
}

}  // namespace fasteep
