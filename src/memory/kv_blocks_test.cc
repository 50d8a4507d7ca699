#include "memory/kv_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace fasteep {
namespace {

TEST(KvBlocks, LayersOfABlockLieSideBySide) {
  DeviceLedger ledger(8 * kSlabBytes);
  const KvBlocks blocks = KvBlocks::create(5, 3, 192, ledger).value();
  EXPECT_EQ(blocks.block_bytes(), 3u * 192);
  std::byte* base = blocks.layer_data(BlockId(0), 0);
  EXPECT_EQ(blocks.layer_data(BlockId(0), 2), base + 2 * 192);
  EXPECT_EQ(blocks.layer_data(BlockId(4), 1), base + 4 * 576 + 192);
}

TEST(KvBlocks, EveryByteIsUsableAndStartsAsZero) {
  DeviceLedger ledger(8 * kSlabBytes);
  const KvBlocks blocks = KvBlocks::create(3, 2, kSlabBytes / 2 + 64, ledger).value();
  const size_t size = blocks.block_bytes() / 2;
  for (int b = 0; b < 3; ++b)
    for (int layer = 0; layer < 2; ++layer) {
      std::byte* data = blocks.layer_data(BlockId(b), layer);
      ASSERT_EQ(data[0], std::byte{0}) << "written by another block";
      ASSERT_EQ(data[size - 1], std::byte{0}) << "written by another block";
      std::memset(data, b * 2 + layer + 1, size);
    }
  EXPECT_EQ(blocks.layer_data(BlockId(1), 1)[size - 1], std::byte{4});
}

TEST(KvBlocks, TheLedgerPaysWholeSlabsUntilTheEnd) {
  DeviceLedger ledger(8 * kSlabBytes);
  {
    const KvBlocks blocks = KvBlocks::create(3, 1, kSlabBytes / 2, ledger).value();
    EXPECT_EQ(blocks.committed_bytes(), 2 * kSlabBytes);
    EXPECT_EQ(ledger.granted(PoolTag::kKv), 2 * kSlabBytes);
  }
  EXPECT_EQ(ledger.granted(PoolTag::kKv), 0u);
}

TEST(KvBlocks, AFullLedgerIsAnErrorAndLeavesNothingBehind) {
  DeviceLedger ledger(2 * kSlabBytes);
  const auto blocks = KvBlocks::create(3, 1, kSlabBytes, ledger);
  ASSERT_FALSE(blocks);
  EXPECT_EQ(blocks.error().code(), ErrorCode::kExhausted);
  EXPECT_THAT(blocks.error().message(), testing::HasSubstr("3 KV blocks of 2097152 bytes"));
  EXPECT_EQ(ledger.granted(PoolTag::kKv), 0u);
}

TEST(KvBlocks, TheirNumberChangesInPlace) {
  DeviceLedger ledger(4 * kSlabBytes);
  KvBlocks blocks = KvBlocks::reserve(10, 1, kSlabBytes / 2, ledger).value();
  EXPECT_EQ(blocks.committed_bytes(), 0u);
  const std::byte* base = blocks.base();
  ASSERT_TRUE(blocks.set_num_blocks(7));
  EXPECT_EQ(blocks.committed_bytes(), 4 * kSlabBytes);
  std::memset(blocks.layer_data(BlockId(2), 0), 7, kSlabBytes / 2);
  ASSERT_TRUE(blocks.set_num_blocks(3));  // half of the second slab is still used
  EXPECT_EQ(blocks.committed_bytes(), 2 * kSlabBytes);
  EXPECT_EQ(ledger.granted(PoolTag::kKv), 2 * kSlabBytes);
  EXPECT_EQ(blocks.layer_data(BlockId(2), 0)[kSlabBytes / 2 - 1], std::byte{7});
  const auto refused = blocks.set_num_blocks(9);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kExhausted);
  EXPECT_EQ(blocks.num_blocks(), 3);
  EXPECT_EQ(blocks.committed_bytes(), 2 * kSlabBytes);
  ASSERT_TRUE(blocks.set_num_blocks(0));
  EXPECT_EQ(blocks.committed_bytes(), 0u);
  EXPECT_EQ(blocks.base(), base);
}

TEST(KvBlocks, RefusesAbsurdSizes) {
  DeviceLedger ledger(2 * kSlabBytes);
  EXPECT_FALSE(KvBlocks::create(0, 1, 64, ledger));
  EXPECT_FALSE(KvBlocks::create(1, -1, 64, ledger));
  EXPECT_FALSE(KvBlocks::create(1, 1, 0, ledger));
  EXPECT_FALSE(KvBlocks::create(1 << 30, 1 << 30, size_t{1} << 20, ledger));
}

}  // namespace
}  // namespace fasteep
