#include "memory/expert_slots.h"

#include <gtest/gtest.h>

namespace fasteep {
namespace {

constexpr ExpertKey key(int layer, int expert) { return {LayerId(layer), ExpertId(expert)}; }

TEST(ExpertSlots, FindsWhatIsPublishedAndRefusesTheRest) {
  DeviceLedger ledger(64 * kSlabBytes);
  auto slots = ExpertSlots::create(3, 1000, ledger);
  ASSERT_TRUE(slots);
  EXPECT_EQ(slots->slot_bytes(), 1024u);
  const SlotId slot = slots->acquire().value();
  EXPECT_EQ(slots->find(key(1, 2)), nullptr) << "acquired is not published";
  slots->publish(slot, key(1, 2));
  EXPECT_EQ(slots->find(key(1, 2)), slots->data(slot));
  EXPECT_EQ(slots->find(key(2, 1)), nullptr);
  slots->withdraw(key(1, 2));
  EXPECT_EQ(slots->find(key(1, 2)), nullptr);
  EXPECT_EQ(slots->num_free(), 3);
}

TEST(ExpertSlots, SlotsShareSlabsAndTheLastUserGivesThemBack) {
  DeviceLedger ledger(64 * kSlabBytes);
  const size_t size = kSlabBytes * 3 / 4;  // slot 1 lies in slabs 0 and 1
  auto slots = ExpertSlots::create(4, size, ledger);
  ASSERT_TRUE(slots);
  const SlotId first = slots->acquire().value();
  const SlotId second = slots->acquire().value();
  slots->publish(first, key(0, 0));
  slots->publish(second, key(0, 1));
  EXPECT_EQ(slots->committed_bytes(), 2 * kSlabBytes);
  *slots->data(second) = std::byte{9};
  slots->withdraw(key(0, 0));
  EXPECT_EQ(slots->committed_bytes(), 2 * kSlabBytes) << "slab 0 also holds the start of slot 1";
  EXPECT_EQ(*slots->find(key(0, 1)), std::byte{9});
  slots->withdraw(key(0, 1));
  EXPECT_EQ(slots->committed_bytes(), 0u);
  EXPECT_EQ(ledger.granted(PoolTag::kExperts), 0u);
}

TEST(ExpertSlots, AFullLedgerLeavesTheSlotFree) {
  DeviceLedger ledger(kSlabBytes);
  auto slots = ExpertSlots::create(2, kSlabBytes, ledger);
  ASSERT_TRUE(slots);
  ASSERT_TRUE(slots->acquire());
  auto refused = slots->acquire();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kExhausted);
  EXPECT_EQ(slots->num_free(), 1);
  EXPECT_EQ(ledger.granted(PoolTag::kExperts), kSlabBytes);
}

TEST(ExpertSlots, HeldIsInOrder) {
  DeviceLedger ledger(4 * kSlabBytes);
  auto slots = ExpertSlots::create(3, 64, ledger);
  for (auto k : {key(2, 0), key(0, 7), key(0, 3)}) slots->publish(slots->acquire().value(), k);
  EXPECT_EQ(slots->held(), (std::vector<ExpertKey>{key(0, 3), key(0, 7), key(2, 0)}));
}

}  // namespace
}  // namespace fasteep
