#include "exchange/call_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <unordered_map>

#include "base/rng.h"
#include "exchange/call_plan_world.h"

namespace fasteep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Planned {
  Planned(std::vector<ViewPtr> given, std::vector<int32_t> given_ids, int num_ranks)
      : views(std::move(given)), ids(std::move(given_ids)), live(num_ranks, Incarnation(1)) {
    plan.start(LayerId(0), {ids.data(), static_cast<int64_t>(ids.size() / 2), 2}, views, live);
  }
  std::vector<int> take(int rank, int limit = 10000) {
    std::vector<int> entries;
    plan.take(RankId(rank), limit, entries);
    return entries;
  }
  std::vector<ViewPtr> views;
  std::vector<int32_t> ids;
  std::vector<Incarnation> live;
  CallPlan plan{RankId(0)};
};

TEST(CallPlan, OwnReplicaComesFirstAndEntriesAreSortedByExpert) {
  Planned p({plan_view(1, 2, {{0, 1}, {1}, {1}})}, {2, 0, 1, 2, 0, 1}, 2);
  EXPECT_THAT(p.take(0), ElementsAre(1, 4));
  EXPECT_THAT(p.take(1), ElementsAre(2, 5, 0, 3));
}

TEST(CallPlan, WholeExpertsStayTogetherWhenASetIsSplit) {
  Planned p({plan_view(1, 2, {{1}, {1}, {1}})}, {0, 1, 0, 1, 0, 2}, 2);
  EXPECT_THAT(p.take(1, 4), ElementsAre(0, 2, 4)) << "two of expert 1 would not fit";
  EXPECT_THAT(p.take(1, 1), ElementsAre(1)) << "an expert larger than the limit is cut";
  EXPECT_THAT(p.take(1, 4), ElementsAre(3, 5));
}

TEST(CallPlan, SharesSplitTheTrafficAndDoNotDependOnTheRun) {
  std::vector<Member> members;
  for (int rank = 0; rank < 3; ++rank) members.push_back({RankId(rank), Incarnation(1)});
  const ViewPtr view = std::make_shared<const View>(
      View::create(Epoch(1), members, {{LayerId(0)}, 1}, {{{RankId(1), 3}, {RankId(2), 1}}})
          .value());
  Planned p({view}, std::vector<int32_t>(2000, 0), 3), again({view}, p.ids, 3);
  const auto first = p.take(1);
  EXPECT_NEAR(static_cast<double>(first.size()), 1500, 100);
  EXPECT_EQ(first, again.take(1));
  EXPECT_EQ(first.size() + p.take(2).size(), 2000u);
}

TEST(CallPlan, ARefusalWithANewerEpochWaitsForThatView) {
  Planned p({plan_view(1, 3, {{1}})}, {0, 0}, 3);
  for (int entry : p.take(1)) p.plan.on_refused(RankId(1), entry, Epoch(2), Epoch(1));
  EXPECT_EQ(p.plan.awaited_epoch(), Epoch(2));
  EXPECT_FALSE(p.plan.is_lost());
  p.views.push_back(plan_view(2, 3, {{2}}));
  p.plan.on_view(p.views, p.live);
  EXPECT_EQ(p.plan.awaited_epoch(), Epoch(0));
  for (int entry : p.take(2)) p.plan.on_answer(entry);
  EXPECT_TRUE(p.plan.is_done());
}

TEST(CallPlan, ARankThatRefusedIsAskedAgainOnlyUnderANewerView) {
  Planned p({plan_view(1, 3, {{1}})}, {0, 0}, 3);
  for (int entry : p.take(1)) p.plan.on_refused(RankId(1), entry, Epoch(1), Epoch(1));
  EXPECT_TRUE(p.plan.is_lost());
  EXPECT_THAT(p.plan.loss().message(), HasSubstr("expert 0 of layer 0 was refused by rank 1"));
  p.views.push_back(plan_view(2, 3, {{1}}));
  p.plan.on_view(p.views, p.live);
  EXPECT_FALSE(p.plan.is_lost());
  EXPECT_EQ(p.take(1).size(), 2u);
}

TEST(CallPlan, WhatWasAskedOfALostRankGoesToAReplica) {
  Planned p({plan_view(1, 3, {{1, 2}, {1, 2}})}, {0, 1, 0, 1}, 3);
  auto asked = p.take(1);
  const auto others = p.take(2);
  p.plan.on_lost(RankId(1));
  EXPECT_EQ(p.take(2).size(), asked.size());
  EXPECT_EQ(asked.size() + others.size(), 4u);
}

TEST(CallPlan, ALossNamesExpertsLayerAndRank) {
  Planned p({plan_view(1, 3, {{0}, {2}, {2}})}, {1, 2}, 3);
  p.plan.on_lost(RankId(2));
  ASSERT_TRUE(p.plan.is_lost());
  EXPECT_EQ(p.plan.loss().message(),
            "experts 1, 2 of layer 0 were on rank 2, which is gone, and have no replica");
}

TEST(CallPlan, AnotherIncarnationOfAMemberIsNotAsked) {
  Planned p({plan_view(1, 2, {{1}})}, {0, 0}, 2);
  p.live[1] = Incarnation(2);
  p.plan.on_lost(RankId(1));
  p.plan.on_view(p.views, p.live);
  EXPECT_TRUE(p.plan.is_lost());
}

// --- every order of events

struct Scenario {
  const char* name;
  int ranks;
  std::vector<Placement> views;
  std::vector<int32_t> ids;
  int deaths;
  bool may_split = false;  // calls of one entry, too
};

PlanWorld make_world(const Scenario& scenario) {
  std::vector<ViewPtr> views;
  for (const Placement& placement : scenario.views)
    views.push_back(plan_view(views.size() + 1, scenario.ranks, placement));
  return PlanWorld(scenario.ranks, views, scenario.ids, scenario.deaths, scenario.may_split);
}

// Depth first, each state once. A state met again on its own path would be a circle without end.
class Explorer {
 public:
  explicit Explorer(int deaths) : deaths_(deaths) {}
  void explore(const PlanWorld& world) {
    if (!failure.empty()) return;
    const auto [place, is_new] = state_.emplace(world.key(), kOnPath);
    if (!is_new) {
      if (place->second == kOnPath) failure = "goes round in circles: " + place->first;
      return;
    }
    if (!world.failure.empty()) failure = world.failure;
    const auto events = world.is_over() ? decltype(world.events()){} : world.events();
    if (events.empty()) failure = world.verdict(deaths_);
    for (const auto& event : events) {
      PlanWorld after = world;
      event(after);
      explore(after);
    }
    place->second = kLeft;
  }
  std::string failure;
  size_t num_states() const { return state_.size(); }

 private:
  enum Mark { kOnPath, kLeft };
  int deaths_;
  std::unordered_map<std::string, Mark> state_;
};

class AllOrders : public testing::TestWithParam<Scenario> {};

TEST_P(AllOrders, AcceptEachEntryOnceAndEnd) {
  Explorer explorer(GetParam().deaths);
  explorer.explore(make_world(GetParam()));
  EXPECT_EQ(explorer.failure, "");
  EXPECT_GT(explorer.num_states(), 20u);
}

INSTANTIATE_TEST_SUITE_P(
    CallPlan, AllOrders,
    testing::Values(Scenario{"a move", 3, {{{1}, {2}}, {{2}, {2}}}, {0, 1}, 0, true},
                    Scenario{"there and back", 2, {{{1}}, {{0}}, {{1}}}, {0, 0}, 0, true},
                    Scenario{"a death with replicas", 3, {{{1, 2}, {1, 2}}}, {0, 1, 0, 1}, 1},
                    Scenario{"a death without replica", 3, {{{1}, {2}}}, {0, 1}, 1, true},
                    Scenario{"a death in a move", 3, {{{1, 2}}, {{2, 0}}}, {0, 0}, 1},
                    Scenario{"two deaths in a move", 3, {{{1, 2}}, {{0, 1}}}, {0, 0}, 2}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

// Larger worlds, orders drawn at random. A red run prints its seed.
Scenario random_scenario(Rng& rng) {
  Scenario scenario{
      "drawn", 2 + static_cast<int>(rng.below(4)), {}, {}, static_cast<int>(rng.below(3))};
  const int experts = 1 + static_cast<int>(rng.below(4));
  for (uint64_t view = 0; view <= rng.below(5); ++view) {
    auto& placement = scenario.views.emplace_back();
    for (int expert = 0; expert < experts; ++expert) {
      std::set<int> holders;
      for (uint64_t i = 0; i <= rng.below(2); ++i)
        holders.insert(static_cast<int>(rng.below(scenario.ranks)));
      placement.emplace_back(holders.begin(), holders.end());
    }
  }
  for (uint64_t i = 0; i < 2 + 2 * rng.below(4); ++i)
    scenario.ids.push_back(static_cast<int32_t>(rng.below(experts)));
  if (scenario.ids.size() % 2 == 1) scenario.ids.push_back(0);
  scenario.may_split = rng.below(2) == 1;
  scenario.deaths = std::min(scenario.deaths, scenario.ranks - 1);
  return scenario;
}

TEST(CallPlan, RandomOrdersAcceptEachEntryOnceAndEnd) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng(seed);
    const Scenario scenario = random_scenario(rng);
    PlanWorld world = make_world(scenario);
    int left = 2000;
    for (auto events = world.events(); !world.is_over() && !events.empty() && left > 0; --left) {
      events[rng.below(events.size())](world);
      events = world.events();
    }
    ASSERT_GT(left, 0) << "no end, seed " << seed;
    ASSERT_EQ(world.failure, "") << "seed " << seed;
    ASSERT_EQ(world.verdict(scenario.deaths), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace fasteep
