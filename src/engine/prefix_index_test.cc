#include "engine/prefix_index.h"

#include <gtest/gtest.h>

#include <numeric>

namespace fasteep {
namespace {

std::vector<TokenId> tokens(int first, int count) {
  std::vector<TokenId> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), first);
  return result;
}

TEST(PrefixIndex, CountsWholeBlocksOfTheCommonPrefix) {
  PrefixIndex index(4, 100);
  index.add(tokens(0, 11), RankId(2));
  EXPECT_EQ(index.cached_tokens(tokens(0, 20))[2], 8);
  EXPECT_EQ(index.cached_tokens(tokens(0, 7))[2], 4);
  EXPECT_EQ(index.cached_tokens(tokens(1, 20))[2], 0);
  EXPECT_EQ(index.cached_tokens(tokens(0, 20))[0], 0);
}

TEST(PrefixIndex, EachRankHasItsOwnLength) {
  PrefixIndex index(4, 100);
  index.add(tokens(0, 16), RankId(0));
  index.add(tokens(0, 8), RankId(126));
  const auto cached = index.cached_tokens(tokens(0, 16));
  EXPECT_EQ(cached[0], 16);
  EXPECT_EQ(cached[126], 8);
}

TEST(PrefixIndex, ForgetsTheBlocksUsedLongestAgo) {
  PrefixIndex index(4, 3);
  index.add(tokens(0, 8), RankId(0));
  index.add(tokens(100, 8), RankId(0));
  EXPECT_EQ(index.num_blocks(), 3u);
  EXPECT_EQ(index.cached_tokens(tokens(100, 8))[0], 8);
  EXPECT_EQ(index.cached_tokens(tokens(0, 8))[0], 0);
}

TEST(PrefixIndex, ARankThatLeftHasNothing) {
  PrefixIndex index(4, 100);
  index.add(tokens(0, 8), RankId(0));
  index.add(tokens(0, 8), RankId(1));
  index.remove_rank(RankId(0));
  EXPECT_EQ(index.cached_tokens(tokens(0, 8))[0], 0);
  EXPECT_EQ(index.cached_tokens(tokens(0, 8))[1], 8);
}

}  // namespace
}  // namespace fasteep
