#include "engine/slot_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "placement/placement.h"

namespace fasteep {
namespace {

constexpr ExpertKey kKey{LayerId(1), ExpertId(3)};

api::Done filled(ExpertKey key, int slot, uint64_t checksum) {
  api::Done done;
  api::Filled* filled = done.add_filled();
  filled->set_layer(key.layer.value);
  filled->set_expert(key.expert.value);
  filled->set_slot(slot);
  filled->set_checksum(checksum);
  done.set_replicated_checksum(77);
  return done;
}

SlotTables with_one_expert() {
  SlotTables tables;
  tables.on_done(RankId(0), {}, filled(kKey, 5, 99));
  return tables;
}

View a_view() {
  return *initial_view(Epoch(1), {{RankId(0), Incarnation(1)}, {RankId(2), Incarnation(1)}},
                       {{LayerId(1)}, 4}, {});
}

TEST(SlotTables, KnowWhatWasFilledUntilItIsDroppedOrTheRankSleeps) {
  SlotTables tables = with_one_expert();
  ASSERT_TRUE(tables.find(RankId(0), kKey));
  EXPECT_EQ(tables.find(RankId(0), kKey)->slot, 5);
  EXPECT_FALSE(tables.find(RankId(1), kKey));
  tables.on_done(RankId(0), drop_order({kKey}), {});
  EXPECT_FALSE(tables.find(RankId(0), kKey));
  tables = with_one_expert();
  api::Order sleep;
  sleep.mutable_sleep();
  tables.on_done(RankId(0), sleep, {});
  EXPECT_EQ(tables.num_held(RankId(0)), 0u);
}

TEST(SlotTables, AFillNamesSlotAndChecksumOfItsSource) {
  const SlotTables tables = with_one_expert();
  ResizeCommand command;
  command.kind = CommandKind::kFill;
  command.moves = {{kKey, RankId(0), RankId(4)}, {kKey, std::nullopt, RankId(4)}};
  command.with_replicated = true;
  const View before = a_view();
  auto order = fill_order(command, &before, tables);
  ASSERT_TRUE(order);
  const api::Fill& fill = order->fill();
  EXPECT_EQ(fill.moves(0).source_slot(), 5);
  EXPECT_EQ(fill.moves(0).checksum(), 99u);
  EXPECT_EQ(fill.moves(1).from(), -1);
  EXPECT_THAT(fill.replicated_from(), testing::ElementsAre(0, 2));
  EXPECT_EQ(fill.replicated_checksum(), 77u);
}

TEST(SlotTables, AtTheStartAllComesFromTheCheckpoint) {
  ResizeCommand command;
  command.moves = {{kKey, std::nullopt, RankId(0)}};
  command.with_replicated = true;
  auto order = fill_order(command, nullptr, {});
  ASSERT_TRUE(order);
  EXPECT_TRUE(order->fill().replicated());
  EXPECT_EQ(order->fill().replicated_from_size(), 0);
  EXPECT_EQ(order->fill().replicated_checksum(), 0u);
}

TEST(SlotTables, ASourceThatHoldsNothingIsNamed) {
  ResizeCommand command;
  command.moves = {{kKey, RankId(9), RankId(4)}};
  const auto order = fill_order(command, nullptr, with_one_expert());
  ASSERT_FALSE(order);
  EXPECT_THAT(order.error().message(), testing::HasSubstr("rank 9 is to give expert 3 of layer 1"));
}

}  // namespace
}  // namespace fasteep
