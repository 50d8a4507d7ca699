#include "engine/surviving_view.h"

#include <gtest/gtest.h>

#include "placement/placement.h"

namespace fasteep {
namespace {

View a_view(int num_redundant) {
  std::vector<Member> members = {{RankId(0), Incarnation(1)}, {RankId(1), Incarnation(1)}};
  return *initial_view(Epoch(1), members, {{LayerId(0), LayerId(1)}, 4}, {num_redundant});
}

TEST(SurvivingView, NamesTheExpertsThatOnlyTheLostRankHad) {
  EXPECT_EQ(experts_only_on(a_view(0), RankId(1)), "experts 1, 3 of layer 0 (4 in all)");
}

TEST(SurvivingView, NothingIsLostWithAReplicaOfEverything) {
  const View view = a_view(4);
  EXPECT_EQ(experts_only_on(view, RankId(1)), "");
  auto rest = without_rank(view, RankId(1), Epoch(7));
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->epoch(), Epoch(7));
  EXPECT_FALSE(rest->is_member(RankId(1), Incarnation(1)));
  EXPECT_EQ(rest->experts_of(RankId(0)).size(), 8u);
}

TEST(SurvivingView, AnExpertWithoutReplicaMakesNoView) {
  EXPECT_FALSE(without_rank(a_view(0), RankId(1), Epoch(2)));
}

}  // namespace
}  // namespace fasteep
