#include "scheduler/block_manager.h"

#define XXH_INLINE_ALL
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <xxhash.h>

#include <array>
#include <map>

#include "scheduler/scheduler.h"

namespace fasteep {
namespace {

using Tokens = std::vector<TokenId>;

uint64_t same_hash(uint64_t, std::span<const TokenId>) { return 42; }

// Publishes `tokens` after `parent` in a fresh block.
PrefixBlock put(BlockManager& manager, PrefixId parent, uint64_t hash, const Tokens& tokens) {
  return manager.publish(manager.allocate(), parent, hash, tokens).value();
}

TEST(BlockHash, IsXxh64OfParentAndTokens) {
  const std::array<uint32_t, 5> words = {0x89abcdef, 0x01234567, 5, 0xffffffff, 70000};
  EXPECT_EQ(block_hash(0x0123456789abcdef, Tokens{5, -1, 70000}),
            XXH64(words.data(), sizeof(words), 0));
}

TEST(BlockManager, TakesFreeBlocksInOrderAndCountsThem) {
  BlockManager manager(3, 2, &block_hash);
  EXPECT_EQ(manager.allocate(), BlockId(0));
  EXPECT_EQ(manager.allocate(), BlockId(1));
  EXPECT_EQ(manager.num_used(), 2);
  EXPECT_EQ(manager.num_free(), 1);
  manager.release(BlockId(0));
  EXPECT_EQ(manager.num_available(), 2);
  EXPECT_EQ(manager.num_cached(), 0) << "a private block is not cached";
}

TEST(BlockManager, FindsWhatWasPublished) {
  BlockManager manager(4, 2, &block_hash);
  const PrefixBlock first = put(manager, kEmptyPrefix, 1, {7, 8});
  const PrefixBlock second = put(manager, first.prefix, 2, {9, 9});
  EXPECT_EQ(manager.find(kEmptyPrefix, 1, Tokens{7, 8})->block, first.block);
  EXPECT_EQ(manager.find(first.prefix, 2, Tokens{9, 9})->block, second.block);
  EXPECT_FALSE(manager.find(kEmptyPrefix, 3, Tokens{7, 8}));
}

TEST(BlockManager, ReleasedPublishedBlocksStayFindable) {
  BlockManager manager(2, 2, &block_hash);
  const PrefixBlock first = put(manager, kEmptyPrefix, 1, {7, 8});
  manager.release(first.block);
  EXPECT_EQ(manager.num_cached(), 1);
  EXPECT_TRUE(manager.find(kEmptyPrefix, 1, Tokens{7, 8}));
  manager.retain(first.block);
  EXPECT_EQ(manager.num_cached(), 0);
  EXPECT_EQ(manager.num_used(), 1);
}

TEST(BlockManager, EvictsTheOneUnusedForLongest) {
  BlockManager manager(3, 1, &block_hash);
  const PrefixBlock a = put(manager, kEmptyPrefix, 1, {1});
  const PrefixBlock b = put(manager, kEmptyPrefix, 2, {2});
  const PrefixBlock c = put(manager, kEmptyPrefix, 3, {3});
  for (const PrefixBlock& block : {a, b, c}) manager.release(block.block);
  manager.retain(a.block);
  manager.release(a.block);  // now b is the oldest
  EXPECT_EQ(manager.allocate(), b.block);
  EXPECT_FALSE(manager.find(kEmptyPrefix, 2, Tokens{2}));
  EXPECT_EQ(manager.allocate(), c.block);
  EXPECT_TRUE(manager.find(kEmptyPrefix, 1, Tokens{1}));
}

TEST(BlockManager, TheSameContentIsKeptOnce) {
  BlockManager manager(3, 2, &block_hash);
  const PrefixBlock first = put(manager, kEmptyPrefix, 1, {7, 8});
  const PrefixBlock again = put(manager, kEmptyPrefix, 1, {7, 8});
  EXPECT_EQ(again.block, first.block);
  EXPECT_EQ(again.prefix, first.prefix);
  EXPECT_EQ(manager.num_used(), 1);
  EXPECT_EQ(manager.num_free(), 2);
  manager.release(first.block);
  EXPECT_EQ(manager.num_used(), 1) << "the second holder still has it";
}

TEST(BlockManager, ACollisionOfTokensIsNoHit) {
  BlockManager manager(3, 2, &same_hash);
  put(manager, kEmptyPrefix, 42, {7, 8});
  EXPECT_FALSE(manager.find(kEmptyPrefix, 42, Tokens{7, 9}));
  EXPECT_FALSE(manager.publish(manager.allocate(), kEmptyPrefix, 42, Tokens{7, 9}));
}

TEST(BlockManager, ACollisionOfParentsIsNoHit) {
  BlockManager manager(4, 2, &block_hash);
  const PrefixBlock a = put(manager, kEmptyPrefix, 1, {1, 1});
  const PrefixBlock b = put(manager, kEmptyPrefix, 2, {2, 2});
  put(manager, a.prefix, 3, {5, 5});
  EXPECT_FALSE(manager.find(b.prefix, 3, Tokens{5, 5}));
}

TEST(BlockManager, ACollisionWithACachedBlockReplacesIt) {
  BlockManager manager(2, 2, &same_hash);
  manager.release(put(manager, kEmptyPrefix, 42, {7, 8}).block);
  put(manager, kEmptyPrefix, 42, {7, 9});
  EXPECT_TRUE(manager.find(kEmptyPrefix, 42, Tokens{7, 9}));
  EXPECT_EQ(manager.num_cached(), 0);
  EXPECT_EQ(manager.num_free(), 1);
}

TEST(BlockManager, DiscardForgetsUnlessSomebodyElseHoldsIt) {
  BlockManager manager(2, 1, &block_hash);
  const PrefixBlock shared = put(manager, kEmptyPrefix, 1, {1});
  manager.retain(shared.block);
  manager.discard(shared.block);
  EXPECT_TRUE(manager.find(kEmptyPrefix, 1, Tokens{1}));
  manager.discard(shared.block);
  EXPECT_FALSE(manager.find(kEmptyPrefix, 1, Tokens{1}));
  EXPECT_EQ(manager.num_free(), 2);
}

TEST(BlockManagerDeathTest, MisuseStopsAtOnce) {
  BlockManager manager(1, 1, &block_hash);
  EXPECT_DEATH(manager.release(BlockId(0)), "no reference");
  EXPECT_DEATH(manager.retain(BlockId(0)), "is free");
  EXPECT_DEATH(manager.retain(BlockId(1)), "KV block 1 of 1");
  manager.allocate();
  EXPECT_DEATH(manager.allocate(), "all 1 KV blocks are used");
}

// Against a model: for each block its references and, if published, its (parent, token).
RC_GTEST_PROP(BlockManager, CountsAndContentsFollowAModel, (std::vector<uint16_t> operations)) {
  constexpr int kBlocks = 5;
  BlockManager manager(kBlocks, 1, &same_hash);
  std::map<BlockId, int> references;
  for (const uint16_t operation : operations) {
    const int choice = operation % 4;
    const BlockId block((operation / 4) % kBlocks);
    const bool held = references[block] > 0;
    if (choice == 0 && manager.num_available() > 0) {
      const BlockId fresh = manager.allocate();
      RC_ASSERT(references[fresh] == 0);
      references[fresh] = 1;
      const Tokens tokens = {operation / 4 % 3};
      const auto published =
          manager.publish(fresh, kEmptyPrefix, static_cast<uint64_t>(tokens[0] % 2), tokens);
      if (published && published->block != fresh) {
        --references[fresh];
        ++references[published->block];
      }
      if (published)
        RC_ASSERT(manager.find(kEmptyPrefix, static_cast<uint64_t>(tokens[0] % 2), tokens)->block ==
                  published->block);
    } else if (choice == 1 && held) {
      manager.retain(block);
      ++references[block];
    } else if (choice >= 2 && held) {
      choice == 2 ? manager.release(block) : manager.discard(block);
      --references[block];
    }
    int used = 0;
    for (const auto& [id, count] : references) {
      RC_ASSERT(manager.is_used(id) == (count > 0));
      used += count > 0;
    }
    RC_ASSERT(manager.num_used() == used);
    RC_ASSERT(used + manager.num_cached() + manager.num_free() == kBlocks);
  }
}

}  // namespace
}  // namespace fasteep
