#include "placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

namespace fasteep {
namespace {

using testing::HasSubstr;

std::vector<Member> members_of(int num_ranks) {
  std::vector<Member> members;
  for (int r = 0; r < num_ranks; ++r) members.push_back({RankId(r), Incarnation(1)});
  return members;
}

ModelShape shape_of(int num_layers, int num_experts) {
  ModelShape shape{.num_experts = num_experts};
  for (int i = 0; i < num_layers; ++i) shape.moe_layers.push_back(LayerId(2 * i + 1));
  return shape;
}

View view_of(int num_ranks, int num_layers, int num_experts, int num_redundant) {
  return initial_view(Epoch(1), members_of(num_ranks), shape_of(num_layers, num_experts),
                      {num_redundant})
      .value();
}

// Slots used on each rank in one layer.
std::vector<int> loads(const View& view, LayerId layer) {
  std::vector<int> slots(view.members().size());
  for (int e = 0; e < view.shape().num_experts; ++e)
    for (const Replica& replica : view.replicas(layer, ExpertId(e)))
      ++slots[static_cast<size_t>(replica.rank.value)];
  return slots;
}

int spread(const std::vector<int>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *high - *low;
}

struct World {
  int ranks, layers, experts, redundant;
};

World any_world() {
  World world{};
  world.ranks = *rc::gen::inRange(1, 41);
  world.layers = *rc::gen::inRange(1, 8);
  world.experts = *rc::gen::inRange(1, 40);
  world.redundant = *rc::gen::inRange(0, world.experts * (world.ranks - 1) + 1);
  return world;
}

RC_GTEST_PROP(Placement, EveryExpertHasReplicasOnDistinctRanks, ()) {
  const World w = any_world();
  const View view = view_of(w.ranks, w.layers, w.experts, w.redundant);
  for (const LayerId layer : view.shape().moe_layers) {
    size_t total = 0;
    for (int e = 0; e < w.experts; ++e) {
      std::set<RankId> ranks;
      for (const Replica& replica : view.replicas(layer, ExpertId(e))) ranks.insert(replica.rank);
      RC_ASSERT(!ranks.empty());
      RC_ASSERT(ranks.size() == view.replicas(layer, ExpertId(e)).size());
      total += ranks.size();
    }
    RC_ASSERT(total == static_cast<size_t>(w.experts + w.redundant));
  }
}

RC_GTEST_PROP(Placement, RanksAreFilledEvenly, ()) {
  const World w = any_world();
  const View view = view_of(w.ranks, w.layers, w.experts, w.redundant);
  std::vector<int> totals(static_cast<size_t>(w.ranks));
  for (const LayerId layer : view.shape().moe_layers) {
    const std::vector<int> slots = loads(view, layer);
    RC_ASSERT(spread(slots) <= 1);
    RC_ASSERT(*std::max_element(slots.begin(), slots.end()) <=
              slots_per_layer(w.experts, w.redundant, w.ranks));
    for (size_t r = 0; r < slots.size(); ++r) totals[r] += slots[r];
  }
  RC_ASSERT(spread(totals) <= 1);
}

RC_GTEST_PROP(Placement, ExpertsOfARankAreItsReplicas, ()) {
  const World w = any_world();
  const View view = view_of(w.ranks, w.layers, w.experts, w.redundant);
  size_t held = 0;
  for (const Member& member : view.members()) {
    const auto experts = view.experts_of(member.rank);
    RC_ASSERT(std::is_sorted(experts.begin(), experts.end()));
    held += experts.size();
  }
  RC_ASSERT(held == static_cast<size_t>(w.layers * (w.experts + w.redundant)));
}

RC_GTEST_PROP(Placement, RedundancyIsSpreadOverExperts, ()) {
  const World w = any_world();
  const View view = view_of(w.ranks, w.layers, w.experts, w.redundant);
  for (const LayerId layer : view.shape().moe_layers) {
    std::vector<int> counts;
    for (int e = 0; e < w.experts; ++e)
      counts.push_back(static_cast<int>(view.replicas(layer, ExpertId(e)).size()));
    RC_ASSERT(spread(counts) <= 2);
  }
}

TEST(Placement, ThreeRanksShareThirtyTwoExperts) {
  const View view = view_of(3, 3, 32, 0);
  EXPECT_EQ(slots_per_layer(32, 0, 3), 11);
  EXPECT_EQ(loads(view, LayerId(1)), (std::vector<int>{11, 11, 10}));
  EXPECT_EQ(loads(view, LayerId(3)), (std::vector<int>{11, 10, 11}));
  EXPECT_EQ(loads(view, LayerId(5)), (std::vector<int>{10, 11, 11}));
}

TEST(Placement, FiveRanksShareThirtyTwoExperts) {
  EXPECT_EQ(slots_per_layer(32, 0, 5), 7);
  EXPECT_EQ(loads(view_of(5, 1, 32, 0), LayerId(1)), (std::vector<int>{7, 7, 6, 6, 6}));
}

TEST(Placement, MoreRanksThanExpertsLeavesSomeEmpty) {
  EXPECT_EQ(loads(view_of(4, 1, 2, 0), LayerId(1)), (std::vector<int>{1, 1, 0, 0}));
}

TEST(Placement, FullRedundancyPutsEveryExpertEverywhere) {
  EXPECT_EQ(loads(view_of(4, 1, 6, 18), LayerId(1)), (std::vector<int>{6, 6, 6, 6}));
}

TEST(Placement, KeepsRankIdsThatAreNotContiguous) {
  const View view =
      initial_view(Epoch(3), {{RankId(9), Incarnation(2)}, {RankId(4), Incarnation(1)}},
                   shape_of(1, 2), {})
          .value();
  EXPECT_EQ(view.replicas(LayerId(1), ExpertId(0))[0].rank, RankId(4));
  EXPECT_EQ(view.replicas(LayerId(1), ExpertId(1))[0].rank, RankId(9));
}

TEST(Placement, RefusesMoreReplicasThanRanksCanHold) {
  const auto view = initial_view(Epoch(1), members_of(3), shape_of(1, 4), {9});
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code(), ErrorCode::kInvalidInput);
  EXPECT_THAT(view.error().message(), HasSubstr("9 redundant experts"));
  EXPECT_THAT(view.error().message(), HasSubstr("at most 8"));
}

TEST(Placement, RefusesNegativeRedundancyAndTooManyRanks) {
  EXPECT_FALSE(initial_view(Epoch(1), members_of(3), shape_of(1, 4), {-1}));
  EXPECT_FALSE(initial_view(Epoch(1), members_of(128), shape_of(1, 4), {}));
  EXPECT_FALSE(initial_view(Epoch(1), {}, shape_of(1, 4), {}));
  EXPECT_FALSE(initial_view(Epoch(1), members_of(1), shape_of(1, -1), {}));
  EXPECT_TRUE(initial_view(Epoch(1), members_of(127), shape_of(1, 4), {}));
}

}  // namespace
}  // namespace fasteep
