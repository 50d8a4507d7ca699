#include "kernels/sampling.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/test_data.h"

namespace fasteep {
namespace {

constexpr int kDraws = 4000;

// How often each token is drawn at positions 0, 1, ...
std::map<TokenId, int> histogram(std::span<const float> logits, const SamplingParams& params) {
  std::map<TokenId, int> counts;
  for (int i = 0; i < kDraws; ++i)
    ++counts[sample(logits, static_cast<int>(logits.size()), params, i).token];
  return counts;
}

std::vector<TokenId> tokens_of(const std::map<TokenId, int>& counts) {
  std::vector<TokenId> tokens;
  for (auto [token, count] : counts) tokens.push_back(token);
  return tokens;
}

struct Vectors {
  nlohmann::json json;
  std::vector<float> logits;
  Vectors() {
    std::ifstream file(FASTEEP_SOURCE_DIR "/tests/kernels/numerics_vectors.json");
    json = nlohmann::json::parse(file).at("sampling");
    logits = json["logits"].get<std::vector<float>>();
  }
};

TEST(Sampling, FrequenciesFollowTheTemperature) {
  const Vectors v;
  const auto counts = histogram(v.logits, {.temperature = 0.8f, .seed = 1});
  const std::vector<double> p = v.json["temperature_0.8_probs"];
  for (size_t i = 0; i < p.size(); ++i) {
    const double deviation = std::sqrt(p[i] * (1 - p[i]) * kDraws);
    const auto found = counts.find(static_cast<TokenId>(i));
    EXPECT_NEAR(found == counts.end() ? 0 : found->second, p[i] * kDraws, 5 * deviation + 1)
        << "token " << i;
  }
}

TEST(Sampling, FiltersKeepWhatTheVectorsSay) {
  const Vectors v;
  EXPECT_EQ(tokens_of(histogram(v.logits, {.top_k = 2, .seed = 2})),
            v.json["top_k_2_keeps"].get<std::vector<TokenId>>());
  EXPECT_EQ(tokens_of(histogram(v.logits, {.temperature = 0.8f, .top_p = 0.8f, .seed = 3})),
            v.json["top_p_0.8_after_temperature_keeps"].get<std::vector<TokenId>>());
  EXPECT_EQ(tokens_of(histogram(v.logits, {.temperature = 0.8f, .min_p = 0.3f, .seed = 4})),
            v.json["min_p_0.3_after_temperature_keeps"].get<std::vector<TokenId>>());
}

TEST(Sampling, GreedyTakesTheLowestIdOfTheLargest) {
  const std::vector<float> logits = {-1, 3, NAN, 3, 2, 9};
  EXPECT_EQ(sample(logits, 5, {.temperature = 0}, 0).token, 1);  // 5 is padding
  EXPECT_EQ(sample(logits, 6, {.temperature = 0}, 0).token, 5);
}

TEST(Sampling, SamePositionSameTokenAndPaddingNeverComes) {
  const Rows logits = random_rows(1, 300, 1);
  std::set<TokenId> tokens;
  for (int position = 0; position < 200; ++position) {
    const SamplingParams params{.temperature = 2, .seed = 9};
    const TokenId token = sample(logits.values, 250, params, position).token;
    EXPECT_EQ(token, sample(logits.values, 250, params, position).token);
    EXPECT_LT(token, 250);
    tokens.insert(token);
  }
  EXPECT_GT(tokens.size(), 50u);
}

TEST(Sampling, NanAndMinusInfinityAreNeverDrawn) {
  std::vector<float> logits = {NAN, -INFINITY, 1, 1, NAN};
  const auto counts = histogram(logits, {.seed = 5});
  EXPECT_EQ(tokens_of(counts), (std::vector<TokenId>{2, 3}));
}

// Each draw is the token that the reference's cumulative distribution holds at the same number.
RC_GTEST_PROP(Sampling, DrawsInvertTheReferenceDistribution, ()) {
  const int vocab = *rc::gen::inRange(1, 400);
  const double spread = *rc::gen::element(0.01, 0.5, 3.0, 20.0);
  Rows logits = random_rows(1, vocab, *rc::gen::inRange<uint64_t>(0, 1000), spread);
  if (*rc::gen::arbitrary<bool>()) logits = rounded(logits, DType::kBFloat16);  // ties
  const SamplingParams params{.temperature = *rc::gen::element(0.3f, 1.0f, 1.7f),
                              .top_p = *rc::gen::element(0.1f, 0.5f, 0.95f, 1.0f),
                              .top_k = *rc::gen::element(0, 1, 3, 40, 1000),
                              .min_p = *rc::gen::element(0.0f, 0.05f, 0.5f),
                              .seed = *rc::gen::inRange<uint64_t>(0, 1000)};
  const auto choices = reference::choices(logits.values, params);
  for (int position = 0; position < 10; ++position) {
    const TokenId token = sample(logits.values, vocab, params, position).token;
    const double u = counter_uniform(params.seed, 0, position);
    double below = 0;
    size_t i = 0;
    while (i < choices.size() && choices[i].token != token) below += choices[i++].probability;
    RC_ASSERT(i < choices.size());
    RC_ASSERT(u >= below - 1e-9);
    RC_ASSERT(u <= below + choices[i].probability + 1e-9);
  }
}

TEST(Sampling, LogprobsAreOfTheRawLogits) {
  const Rows logits = random_rows(1, 50, 3);
  double sum = 0;
  for (float x : logits.values) sum += std::exp(double{x});
  const Sample s =
      sample(logits.values, 50, {.temperature = 0.5f, .seed = 3, .num_logprobs = 4}, 7);
  EXPECT_NEAR(s.logprob, logits.values[s.token] - std::log(sum), 1e-6);
  ASSERT_EQ(s.top.size(), 4u);
  EXPECT_EQ(s.top[0].token, sample(logits.values, 50, {.temperature = 0}, 0).token);
  for (size_t i = 0; i + 1 < 4; ++i) EXPECT_GE(s.top[i].logprob, s.top[i + 1].logprob);
  EXPECT_NEAR(s.top[3].logprob, logits.values[s.top[3].token] - std::log(sum), 1e-6);
  EXPECT_TRUE(sample(logits.values, 50, {.seed = 3}, 7).top.empty());
}

}  // namespace
}  // namespace fasteep
