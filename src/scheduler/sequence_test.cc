#include "scheduler/sequence.h"

#include <gtest/gtest.h>

namespace fasteep {
namespace {

using Tokens = std::vector<TokenId>;

int hashes_computed = 0;
uint64_t counting_hash(uint64_t parent_hash, std::span<const TokenId> tokens) {
  ++hashes_computed;
  return block_hash(parent_hash, tokens);
}
uint64_t same_hash(uint64_t, std::span<const TokenId>) { return 42; }

Sequence sequence_of(Tokens prompt) {
  return Sequence({.id = RequestId(1), .prompt = std::move(prompt), .max_tokens = 9}, 0, true);
}

// Admits it with whatever prefix is cached and computes the rest. Returns the cached tokens.
int compute(Sequence& sequence, BlockManager& manager) {
  const auto prefix = sequence.find_prefix(manager);
  sequence.adopt_prefix(prefix, manager);
  const int cached = sequence.num_computed();
  const int rows = sequence.num_uncomputed();
  sequence.allocate_for(rows, manager);
  sequence.mark_computed(rows, manager);
  return cached;
}

TEST(Sequence, StopTokensComeBeforeLength) {
  Sequence sequence({.id = RequestId(1), .prompt = {1}, .max_tokens = 2, .stop_token_ids = {7}}, 0,
                    true);
  EXPECT_EQ(sequence.append(3, 10), SequenceEnd::kNone);
  EXPECT_EQ(sequence.append(7, 10), SequenceEnd::kStop);
  EXPECT_EQ(sequence.num_generated(), 2);
}

TEST(Sequence, HashesOfAPromptAreComputedOnce) {
  BlockManager manager(8, 2, &counting_hash);
  hashes_computed = 0;
  Sequence sequence = sequence_of({1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(sequence.find_prefix(manager).empty());
  EXPECT_EQ(hashes_computed, 1) << "the first miss ends the search";
  compute(sequence, manager);
  EXPECT_EQ(hashes_computed, 3);
  sequence.release(manager);
  EXPECT_EQ(compute(sequence, manager), 4);
  EXPECT_EQ(hashes_computed, 3);
}

TEST(Sequence, TheTailOfAReleasedSequenceIsEvictedFirst) {
  BlockManager manager(3, 2, &block_hash);
  Sequence sequence = sequence_of({1, 2, 3, 4, 5, 6});
  compute(sequence, manager);
  sequence.release(manager);
  manager.allocate();
  EXPECT_EQ(cached_prefix_tokens(manager, Tokens{1, 2, 3, 4, 5, 6}), 4);
}

TEST(Sequence, ACollisionGivesNoWrongBlock) {
  BlockManager manager(8, 2, &same_hash);
  Sequence one = sequence_of({1, 2, 3}), other = sequence_of({4, 5, 6, 7, 8});
  compute(one, manager);
  EXPECT_EQ(compute(other, manager), 0);
  EXPECT_NE(one.blocks()[0], other.blocks()[0]);
  EXPECT_EQ(manager.num_used(), 5);
  EXPECT_EQ(cached_prefix_tokens(manager, Tokens{4, 5}), 0);
  other.release(manager);
  EXPECT_EQ(manager.num_free(), 6);
}

TEST(Sequence, SharedBlocksOutliveTheirFirstHolder) {
  BlockManager manager(8, 2, &block_hash);
  Sequence one = sequence_of({1, 2, 3, 4, 5}), other = sequence_of({1, 2, 3, 4, 6});
  compute(one, manager);
  EXPECT_EQ(compute(other, manager), 4);
  EXPECT_EQ(manager.num_used(), 4);
  one.discard(manager);
  EXPECT_EQ(manager.num_used(), 3);
  EXPECT_EQ(cached_prefix_tokens(manager, Tokens{1, 2, 3, 4}), 4);
}

}  // namespace
}  // namespace fasteep
