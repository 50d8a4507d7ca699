#include "engine/request_router.h"

#include <gtest/gtest.h>

#include <numeric>

namespace fasteep {
namespace {

std::vector<TokenId> tokens(int first, int count) {
  std::vector<TokenId> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), first);
  return result;
}

RequestRouter two_ranks(RouterOptions options = {}) {
  RequestRouter router(options);
  router.add_rank(RankId(0), 1000);
  router.add_rank(RankId(1), 1000);
  return router;
}

TEST(RequestRouter, TakesTheRankWithMostRoom) {
  RequestRouter router = two_ranks();
  router.on_assigned(RankId(0), tokens(0, 3), 300);
  EXPECT_EQ(*router.choose(tokens(500, 3)), RankId(1));
  router.on_assigned(RankId(1), tokens(500, 3), 400);
  EXPECT_EQ(*router.choose(tokens(900, 3)), RankId(0));
}

TEST(RequestRouter, ARankWithoutAQueueBeatsOneWithMoreRoom) {
  RequestRouter router = two_ranks({.max_running = 2, .max_requests = 9});
  router.on_assigned(RankId(0), tokens(0, 3), 10);
  router.on_assigned(RankId(0), tokens(50, 3), 10);
  router.on_assigned(RankId(1), tokens(90, 3), 900);
  EXPECT_EQ(*router.choose(tokens(500, 3)), RankId(1));
}

TEST(RequestRouter, PrefersTheRankThatHasThePrefix) {
  RequestRouter router = two_ranks();
  router.on_assigned(RankId(1), tokens(0, 64), 100);
  EXPECT_EQ(*router.choose(tokens(0, 80)), RankId(1));
  EXPECT_EQ(*router.choose(tokens(500, 80)), RankId(0));
}

TEST(RequestRouter, AnAnswerIsThePrefixOfTheNextTurn) {
  RequestRouter router = two_ranks();
  router.on_assigned(RankId(1), tokens(0, 4), 100);
  router.on_ended(RankId(1), tokens(0, 64), 100);
  router.on_assigned(RankId(1), tokens(900, 4), 100);
  EXPECT_EQ(*router.choose(tokens(0, 80)), RankId(1));
}

TEST(RequestRouter, AMuchMoreLoadedRankLosesItsPrefixes) {
  RequestRouter router = two_ranks();
  for (int i = 0; i < 5; ++i) router.on_assigned(RankId(1), tokens(0, 64), 1);
  EXPECT_EQ(*router.choose(tokens(0, 64)), RankId(0));
}

TEST(RequestRouter, WithoutPrefixCacheOnlyRoomCounts) {
  RequestRouter router = two_ranks({.prefix_cache = false});
  router.on_assigned(RankId(1), tokens(0, 64), 100);
  EXPECT_EQ(*router.choose(tokens(0, 64)), RankId(0));
}

TEST(RequestRouter, AFullQueueIsExhaustedUntilSomethingEnds) {
  RequestRouter router = two_ranks({.max_running = 1, .max_requests = 1});
  router.on_assigned(RankId(0), tokens(0, 3), 10);
  router.on_assigned(RankId(1), tokens(0, 3), 10);
  ASSERT_FALSE(router.choose(tokens(0, 3)));
  EXPECT_EQ(router.choose(tokens(0, 3)).error().code(), ErrorCode::kExhausted);
  router.on_ended(RankId(1), tokens(0, 3), 10);
  EXPECT_EQ(*router.choose(tokens(0, 3)), RankId(1));
}

TEST(RequestRouter, ALostRankGetsNothing) {
  RequestRouter router = two_ranks();
  router.on_assigned(RankId(0), tokens(0, 64), 10);
  router.remove_rank(RankId(0));
  router.on_ended(RankId(0), tokens(0, 64), 10);
  EXPECT_EQ(*router.choose(tokens(0, 64)), RankId(1));
  router.remove_rank(RankId(1));
  EXPECT_EQ(router.choose(tokens(0, 64)).error().code(), ErrorCode::kUnavailable);
}

TEST(RequestRouter, ARankThatLeavesIsNotChosenAndItsRequestsStayCounted) {
  RequestRouter router = two_ranks();
  router.on_assigned(RankId(0), tokens(0, 64), 100);
  router.set_admitting(RankId(0), false);
  EXPECT_EQ(*router.choose(tokens(0, 64)), RankId(1)) << "although the other has the prefix";
  router.set_admitting(RankId(1), false);
  EXPECT_EQ(router.choose(tokens(0, 64)).error().code(), ErrorCode::kUnavailable);
  router.set_admitting(RankId(0), true);
  router.on_ended(RankId(0), tokens(0, 64), 100);
  EXPECT_EQ(*router.choose(tokens(500, 64)), RankId(0));
}

TEST(RequestRouter, RoomFollowsTheKvThatARankHasNow) {
  RequestRouter router = two_ranks();
  router.set_kv_tokens(RankId(1), 1500);
  EXPECT_EQ(*router.choose(tokens(0, 3)), RankId(1));
  router.set_kv_tokens(RankId(1), 500);
  EXPECT_EQ(*router.choose(tokens(0, 3)), RankId(0));
}

}  // namespace
}  // namespace fasteep
