#include "exchange/gather.h"

#include <gtest/gtest.h>

namespace fasteep {
namespace {

constexpr LayerId kBefore(2), kLayer(4), kNone(-1);  // layer 3 is dense

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

TEST(Gather, APeerOnItsWayToThisLayerIsNear) {
  EXPECT_TRUE(is_near({1, Phase::kCombined, kBefore}, kLayer, kBefore, false));
  EXPECT_TRUE(is_near({1, Phase::kPosted, kBefore}, kLayer, kBefore, false));
  EXPECT_TRUE(is_near({1, Phase::kPosting, kLayer}, kLayer, kBefore, false));
}

TEST(Gather, APeerThatHasPostedOrCalledIsNot) {
  EXPECT_FALSE(is_near({1, Phase::kPosted, kLayer}, kLayer, kBefore, false));
  EXPECT_FALSE(is_near({1, Phase::kPosting, kLayer}, kLayer, kBefore, true));
}

TEST(Gather, APeerElsewhereIsNot) {
  EXPECT_FALSE(is_near({1, Phase::kIdle, kNone}, kLayer, kBefore, false));
  EXPECT_FALSE(is_near({1, Phase::kCombined, LayerId(1)}, kLayer, kBefore, false));
  EXPECT_FALSE(is_near({1, Phase::kStarted, kNone}, kLayer, kBefore, false));
}

TEST(Gather, AStartedStepIsNearTheFirstMoeLayer) {
  EXPECT_TRUE(is_near({1, Phase::kStarted, kNone}, kLayer, kNone, false));
}

TEST(Gather, SmallModelsDoNotWaitLong) {
  using std::chrono::microseconds;
  EXPECT_EQ(gather_budget(microseconds(500), microseconds(60)), microseconds(30));
  EXPECT_EQ(gather_budget(microseconds(500), microseconds(9000)), microseconds(500));
}

}  // namespace
}  // namespace fasteep
