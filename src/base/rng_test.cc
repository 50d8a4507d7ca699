#include "base/rng.h"

#include <gtest/gtest.h>

namespace fasteep {
namespace {

// Known answers published with Random123 (kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, DrawDependsOnSeedStreamAndCounterOnly) {
  Rng rng(7, 3);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(rng.uniform(), counter_uniform(7, 3, i));
  EXPECT_NE(counter_uniform(7, 3, 0), counter_uniform(7, 4, 0));
}

TEST(Rng, NormalHasUnitVariance) {
  Rng rng(1);
  double sum = 0, squares = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.05);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.05);
}

}  // namespace
}  // namespace fasteep
