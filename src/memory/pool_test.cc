#include "memory/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace fasteep {
namespace {

// Resident bytes of the mappings inside [base, base + size), by the kernel's count.
size_t resident_bytes(const std::byte* base, size_t size) {
  std::ifstream smaps("/proc/self/smaps");
  const auto low = reinterpret_cast<uintptr_t>(base);
  bool inside = false;
  size_t sum = 0;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0, end = 0;
    size_t kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin >= low && end <= low + size;
    } else if (inside && std::sscanf(line.c_str(), "Rss: %zu kB", &kib) == 1) {
      sum += kib * 1024;
    }
  }
  return sum;
}

TEST(MemoryPool, KeepsAddressesAndZeroFillsOverReleaseAndCommit) {
  DeviceLedger ledger(64 * kSlabBytes);
  auto pool = MemoryPool::create(PoolTag::kKv, 5 * kSlabBytes + 1, ledger);
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->reserved_bytes(), 6 * kSlabBytes);
  std::byte* base = pool->base();
  ASSERT_TRUE(pool->commit(0, pool->reserved_bytes()));
  std::memset(base, 7, pool->reserved_bytes());
  pool->release(kSlabBytes, 2 * kSlabBytes);
  ASSERT_TRUE(pool->commit(kSlabBytes, 2 * kSlabBytes));
  EXPECT_EQ(pool->base(), base);
  EXPECT_EQ(base[kSlabBytes - 1], std::byte{7});
  EXPECT_EQ(base[kSlabBytes], std::byte{0});
  EXPECT_EQ(base[3 * kSlabBytes - 1], std::byte{0});
  EXPECT_EQ(base[3 * kSlabBytes], std::byte{7});
}

TEST(MemoryPool, ResidentPagesFollowCommitAndRelease) {
  DeviceLedger ledger(64 * kSlabBytes);
  auto pool = MemoryPool::create(PoolTag::kKv, 8 * kSlabBytes, ledger);
  ASSERT_TRUE(pool);
  EXPECT_EQ(resident_bytes(pool->base(), pool->reserved_bytes()), 0u);
  ASSERT_TRUE(pool->commit(0, 8 * kSlabBytes));
  EXPECT_EQ(resident_bytes(pool->base(), pool->reserved_bytes()), 8 * kSlabBytes);
  pool->release(2 * kSlabBytes, 5 * kSlabBytes);
  EXPECT_EQ(resident_bytes(pool->base(), pool->reserved_bytes()), 3 * kSlabBytes);
}

TEST(MemoryPool, ReleasesOnlyWholeSlabsInsideTheRange) {
  DeviceLedger ledger(64 * kSlabBytes);
  auto pool = MemoryPool::create(PoolTag::kKv, 3 * kSlabBytes, ledger);
  ASSERT_TRUE(pool && pool->commit(0, 3 * kSlabBytes));
  pool->release(1, 2 * kSlabBytes);
  EXPECT_EQ(pool->committed_bytes(), 2 * kSlabBytes);
}

TEST(MemoryPool, GrantsSumUpAndReturn) {
  DeviceLedger ledger(4 * kSlabBytes);
  {
    auto experts = MemoryPool::create(PoolTag::kExperts, 8 * kSlabBytes, ledger);
    auto kv = MemoryPool::create(PoolTag::kKv, 8 * kSlabBytes, ledger);
    ASSERT_TRUE(experts && kv);
    ASSERT_TRUE(experts->commit(0, 3 * kSlabBytes));
    ASSERT_TRUE(experts->commit(0, 3 * kSlabBytes)) << "twice costs once";
    ASSERT_TRUE(kv->commit(0, 1));
    EXPECT_EQ(ledger.granted(PoolTag::kExperts), 3 * kSlabBytes);
    EXPECT_EQ(ledger.granted(PoolTag::kKv), kSlabBytes);
    auto refused = kv->commit(kSlabBytes, 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::kExhausted);
    EXPECT_THAT(refused.error().message(), testing::HasSubstr("kv needs 2.00 MiB more, 0"));
    experts->release(0, kSlabBytes);
    EXPECT_TRUE(kv->commit(kSlabBytes, 1));
  }
  EXPECT_EQ(ledger.free_bytes(), ledger.capacity());
}

TEST(MemoryPoolDeathTest, ReleasedMemoryCannotBeRead) {
  DeviceLedger ledger(4 * kSlabBytes);
  auto pool = MemoryPool::create(PoolTag::kKv, kSlabBytes, ledger);
  ASSERT_TRUE(pool);
  EXPECT_DEATH({ *const_cast<volatile std::byte*>(pool->base()); }, "");
}

}  // namespace
}  // namespace fasteep
