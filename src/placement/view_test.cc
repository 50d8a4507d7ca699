#include "placement/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fasteep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<Member> kMembers = {{RankId(0), Incarnation(1)}, {RankId(2), Incarnation(4)}};

ModelShape two_layers() { return {.moe_layers = {LayerId(1), LayerId(3)}, .num_experts = 2}; }

std::vector<std::vector<Replica>> good_table() {
  return {{{RankId(0)}}, {{RankId(2)}, {RankId(0)}}, {{RankId(2)}}, {{RankId(0), 3}}};
}

std::string error_of(std::vector<Member> members, ModelShape shape,
                     std::vector<std::vector<Replica>> table) {
  const Result<View> view =
      View::create(Epoch(1), std::move(members), std::move(shape), std::move(table));
  if (view) return "none";
  EXPECT_EQ(view.error().code(), ErrorCode::kInvalidInput);
  return view.error().message();
}

TEST(View, AnswersWhereEachExpertLives) {
  const View view = View::create(Epoch(7), kMembers, two_layers(), good_table()).value();
  EXPECT_EQ(view.epoch(), Epoch(7));
  EXPECT_THAT(view.replicas(LayerId(1), ExpertId(1)),
              ElementsAre(Replica{RankId(2)}, Replica{RankId(0)}));
  EXPECT_THAT(view.replicas(LayerId(3), ExpertId(1)), ElementsAre(Replica{RankId(0), 3}));
  EXPECT_THAT(view.experts_of(RankId(2)),
              ElementsAre(std::pair(LayerId(1), ExpertId(1)), std::pair(LayerId(3), ExpertId(0))));
  EXPECT_TRUE(view.experts_of(RankId(1)).empty());
}

TEST(View, TellsIncarnationsApart) {
  const View view = View::create(Epoch(1), kMembers, two_layers(), good_table()).value();
  EXPECT_TRUE(view.is_member(RankId(2), Incarnation(4)));
  EXPECT_FALSE(view.is_member(RankId(2), Incarnation(3)));
  EXPECT_FALSE(view.is_member(RankId(1), Incarnation(1)));
}

TEST(View, SortsMembersByRank) {
  const View view =
      View::create(Epoch(1), {kMembers[1], kMembers[0]}, two_layers(), good_table()).value();
  EXPECT_THAT(view.members(), ElementsAre(kMembers[0], kMembers[1]));
}

TEST(View, RefusesAnExpertWithoutReplica) {
  auto table = good_table();
  table[2].clear();
  EXPECT_EQ(error_of(kMembers, two_layers(), table), "layer 3 expert 0: no replica");
}

TEST(View, RefusesTwoReplicasOnOneRank) {
  auto table = good_table();
  table[1] = {{RankId(2)}, {RankId(2)}};
  EXPECT_EQ(error_of(kMembers, two_layers(), table), "layer 1 expert 1: two replicas on rank 2");
}

TEST(View, RefusesAReplicaOnAStranger) {
  auto table = good_table();
  table[0] = {{RankId(1)}};
  EXPECT_THAT(error_of(kMembers, two_layers(), table), HasSubstr("rank 1, which is no member"));
}

TEST(View, RefusesAReplicaWithoutTraffic) {
  auto table = good_table();
  table[0] = {{RankId(0), 0}};
  EXPECT_THAT(error_of(kMembers, two_layers(), table), HasSubstr("share 0"));
}

TEST(View, RefusesATableOfTheWrongSize) {
  auto table = good_table();
  table.pop_back();
  EXPECT_THAT(error_of(kMembers, two_layers(), table), HasSubstr("2 MoE layers of 2"));
}

TEST(View, RefusesBadMembers) {
  EXPECT_THAT(error_of({}, two_layers(), good_table()), HasSubstr("at least one member"));
  EXPECT_THAT(error_of({kMembers[0], kMembers[0]}, two_layers(), good_table()), HasSubstr("twice"));
  EXPECT_THAT(error_of({{RankId(0), Incarnation(0)}}, two_layers(), good_table()),
              HasSubstr("incarnation 0"));
  EXPECT_THAT(error_of({{RankId(-1), Incarnation(1)}}, two_layers(), good_table()),
              HasSubstr("negative"));
}

TEST(View, RefusesABadShape) {
  EXPECT_THAT(error_of(kMembers, {{LayerId(3), LayerId(1)}, 2}, good_table()),
              HasSubstr("do not increase"));
  EXPECT_THAT(error_of(kMembers, {{}, 2}, {}), HasSubstr("no MoE layer"));
  EXPECT_THAT(error_of(kMembers, {{LayerId(1)}, 0}, {}), HasSubstr("0 experts"));
}

TEST(View, RefusesEpochZero) {
  EXPECT_FALSE(View::create(Epoch(0), kMembers, two_layers(), good_table()));
}

}  // namespace
}  // namespace fasteep
