#include "exchange/gather.h"

#include <gtest/gtest.h>

#include <vector>

namespace fasteep {
namespace {

const std::vector<LayerId> kLayers = {LayerId(0), LayerId(2), LayerId(4), LayerId(5), LayerId(7)};
constexpr LayerId kNone(-1);
constexpr int kAt = 2;  // layer 4; layer 3 is dense

std::optional<int> behind(Phase phase, LayerId layer) {
  return layers_behind({1, phase, layer}, kLayers, kAt);
}

TEST(Gather, ProgressSurvivesItsWord) {
  for (Phase phase : {Phase::kIdle, Phase::kPosting, Phase::kCombined}) {
    const Progress progress{0xfffffff0u, phase, LayerId(-1)};
    EXPECT_EQ(unpack_progress(pack(progress)), progress);
  }
  const Progress deep{7, Phase::kPosted, LayerId(91)};
  EXPECT_EQ(unpack_progress(pack(deep)), deep);
}

TEST(Gather, AnyWordIsSomeProgress) {
  EXPECT_EQ(unpack_progress(~uint64_t{0}).phase, Phase::kCombined);
}

TEST(Gather, CountsHowManyLayersAPeerIsBehind) {
  EXPECT_EQ(behind(Phase::kPosting, LayerId(4)), 0);
  EXPECT_EQ(behind(Phase::kCombined, LayerId(2)), 0);
  EXPECT_EQ(behind(Phase::kPosted, LayerId(2)), 0);
  EXPECT_EQ(behind(Phase::kCombined, LayerId(0)), 1);
  EXPECT_EQ(behind(Phase::kStarted, kNone), 2);
}

TEST(Gather, GoesRoundFromTheLastLayerToTheNextStep) {
  EXPECT_EQ(behind(Phase::kCombined, LayerId(7)), 2);
  EXPECT_EQ(behind(Phase::kPosted, LayerId(4)), 4);  // just ahead
  EXPECT_EQ(layers_behind({1, Phase::kCombined, LayerId(7)}, kLayers, 0), 0);
}

TEST(Gather, APeerOutsideAStepOrAtAnUnknownLayerIsNowhere) {
  EXPECT_EQ(behind(Phase::kIdle, kNone), std::nullopt);
  EXPECT_EQ(behind(Phase::kCombined, LayerId(3)), std::nullopt);
  EXPECT_EQ(behind(Phase::kCombined, LayerId(9)), std::nullopt);
}

TEST(Gather, WaitsForThisLayerAndInAStepForPeersThatCanCatchUp) {
  EXPECT_TRUE(is_near(0, 5, false, false));
  EXPECT_FALSE(is_near(0, 5, true, true)) << "it has called";
  EXPECT_FALSE(is_near(std::nullopt, 5, false, true));
  EXPECT_TRUE(is_near(2, 5, false, true));
  EXPECT_FALSE(is_near(2, 5, false, false)) << "no step of this rank would be shared";
  EXPECT_FALSE(is_near(3, 5, false, true)) << "it is ahead rather";
}

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(GatherBudget, IsHalfOfAComputationAtMost) {
  GatherBudget budget(milliseconds(20));
  for (int i = 0; i < 100; ++i) budget.on_computed(microseconds(60), true);
  const Duration left = budget.left(TimePoint(seconds(1)));
  EXPECT_LE(left, microseconds(31));
  EXPECT_GE(left, microseconds(29));
}

TEST(GatherBudget, WaitsInVainEndButForASmallShareOfTheTime) {
  GatherBudget budget(milliseconds(20));
  TimePoint now(seconds(1));
  Duration waited{};
  for (int i = 0; i < 10000; ++i) {  // computations of 10 ms that nobody shares
    const Duration wait = budget.left(now);
    budget.on_waited(wait);
    waited += wait;
    now += wait + milliseconds(10);
    budget.on_computed(milliseconds(10), false);
  }
  EXPECT_LT(waited, (now - TimePoint(seconds(1))) / 20);
}

TEST(GatherBudget, SharedComputationsPayForTheWaits) {
  GatherBudget budget(milliseconds(20));
  TimePoint now(seconds(1));
  for (int i = 0; i < 10000; ++i) {
    budget.on_waited(std::min<Duration>(milliseconds(4), budget.left(now)));
    now += milliseconds(14);
    budget.on_computed(milliseconds(10), true);
  }
  EXPECT_GE(budget.left(now), milliseconds(4));
}

}  // namespace
}  // namespace fasteep
