#include "model/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/json_input.h"
#include "model/test_support.h"

namespace fasteep {
namespace {

using Json = nlohmann::json;

Json vectors() {
  return Json::parse(read_bytes(FASTEEP_SOURCE_DIR "/tests/kernels/numerics_vectors.json"));
}

RopeParams yarn_of(const Json& entry) {
  RopeParams rope;
  rope.type = RopeType::kYarn;
  rope.theta = entry["theta"];
  rope.factor = entry["factor"];
  rope.original_max_positions = entry["original"];
  rope.beta_fast = entry["beta_fast"];
  rope.beta_slow = entry["beta_slow"];
  rope.truncate = entry["truncate"];
  return rope;
}

TEST(RopeTable, YarnFrequenciesAreTheCheckValues) {
  for (const Json& entry : vectors()["yarn"]) {
    const std::vector<double> frequencies = rope_frequencies(yarn_of(entry), entry["dim"]);
    ASSERT_EQ(frequencies.size(), entry["inv_freq"].size());
    double worst = 0;
    for (size_t i = 0; i < frequencies.size(); ++i)
      worst = std::max(worst, std::abs(frequencies[i] / entry["inv_freq"][i].get<double>() - 1));
    EXPECT_LT(worst, 1e-9) << entry["name"];
  }
}

TEST(RopeTable, AttentionFactorFollowsItsThreeRules) {
  RopeParams rope;
  EXPECT_EQ(rope_attention_factor(rope), 1);
  rope.type = RopeType::kYarn;
  rope.factor = 4;
  EXPECT_NEAR(rope_attention_factor(rope), 1.1386294, 1e-7);
  rope.mscale = 0.707;
  rope.mscale_all_dim = 0.707;
  EXPECT_EQ(rope_attention_factor(rope), 1);
  rope.mscale_all_dim = 1;
  rope.factor = 40;
  EXPECT_NEAR(rope_attention_factor(rope), 1.2608038 / 1.3688879, 1e-7);
  rope.attention_factor = 3;
  EXPECT_EQ(rope_attention_factor(rope), 3);
}

TEST(RopeTable, LinearDividesEveryFrequency) {
  RopeParams rope;
  const std::vector<double> plain = rope_frequencies(rope, 8);
  rope.type = RopeType::kLinear;
  rope.factor = 2;
  const std::vector<double> stretched = rope_frequencies(rope, 8);
  EXPECT_EQ(stretched[0], plain[0] / 2);
  EXPECT_EQ(stretched[3], plain[3] / 2);
}

TEST(RopeTable, RowsDependOnTheirPositionOnly) {
  RopeParams rope;
  rope.type = RopeType::kYarn;
  rope.factor = 4;
  rope.original_max_positions = 128;
  const RopeTable table(rope, 32);
  std::vector<float> many(2 * 5 * 16), one(2 * 16);
  table.fill(100, {many.data(), 5, 16}, {many.data() + 80, 5, 16});
  table.fill(103, {one.data(), 1, 16}, {one.data() + 16, 1, 16});
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(one[i], many[3 * 16 + i]);
    EXPECT_EQ(one[16 + i], many[80 + 3 * 16 + i]);
  }
  // cos^2 + sin^2 = factor^2 shows that both carry it.
  EXPECT_NEAR(std::hypot(one[0], one[16]), rope_attention_factor(rope), 1e-6);
}

}  // namespace
}  // namespace fasteep
