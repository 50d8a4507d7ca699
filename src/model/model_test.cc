// The forward pass against the reference implementation's numbers, and against itself by bits.
#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "model/json_input.h"
#include "model/test_support.h"
#include "model/test_world.h"
#include "text/tokenizer.h"

namespace fasteep {
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<TokenId>;

// expected.json and expected.safetensors of a fixture.
struct Expected {
  explicit Expected(const std::string& name)
      : json(Json::parse(read_bytes(fixture(name) + "/expected.json"))),
        file(SafetensorsFile::open(fixture(name) + "/expected.safetensors").value()) {}

  Tokens prompt(int i) const { return json["prompts"][i].get<Tokens>(); }
  std::span<const float> values(const std::string& name) const {
    for (const TensorView& tensor : file.tensors())
      if (tensor.name == name)
        return {reinterpret_cast<const float*>(tensor.bytes.data()), tensor.bytes.size() / 4};
    CHECK(false, "no {}", name);
  }

  Json json;
  SafetensorsFile file;
};

// max |a - b| / max |b|.
double deviation(std::span<const float> a, std::span<const float> b) {
  CHECK(a.size() == b.size(), "{} values against {}", a.size(), b.size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(double{a[i]} - double{b[i]}));
    largest = std::max(largest, std::abs(double{b[i]}));
  }
  return worst / largest;
}

// Of the last positions of prompt i, all that expected.safetensors holds.
double logits_deviation(WorldRank& rank, const Expected& expected, int i) {
  TestSequence sequence;
  const std::vector<float> logits = rank.prefill(sequence, expected.prompt(i), 64);
  const std::span<const float> wanted = expected.values(fmt::format("logits.{}", i));
  return deviation(std::span(logits).last(wanted.size()), wanted);
}

class Fixture : public ::testing::TestWithParam<const char*> {};

TEST_P(Fixture, Float32LogitsAreTheReferences) {
  const Expected expected(GetParam());
  ModelWorld world(fixture(GetParam()), {});
  for (int i = 0; i < 3; ++i) EXPECT_LT(logits_deviation(world.rank(0), expected, i), 1e-4) << i;
}

TEST_P(Fixture, BFloat16LogitsStayInTheReferencesOwnDrift) {
  const Expected expected(GetParam());
  ModelWorld world(fixture(GetParam()), {.dtype = DType::kBFloat16});
  const double limit = std::max(0.03, expected.json["bf16_deviation"].get<double>());
  for (int i = 0; i < 3; ++i) EXPECT_LT(logits_deviation(world.rank(0), expected, i), limit) << i;
}

TEST_P(Fixture, HiddenStatesAreTheReferencesLayerByLayer) {
  const Expected expected(GetParam());
  ModelWorld world(fixture(GetParam()), {});
  const std::span<const float> wanted = expected.values("hidden.2");
  int layers_seen = 0;
  world.rank(0).model().tap_hidden([&](int index, Span2<const float> rows) {
    const size_t size = static_cast<size_t>(rows.rows() * rows.cols());
    EXPECT_LT(deviation({rows.data(), size}, wanted.subspan(index * size, size)), 1e-4) << index;
    ++layers_seen;
  });
  TestSequence sequence;
  world.rank(0).prefill(sequence, expected.prompt(2), kTestRows);
  EXPECT_EQ(layers_seen, world.config().num_layers + 1);
}

TEST_P(Fixture, GreedyTokensAreTheReferences) {
  const Expected expected(GetParam());
  ModelWorld world(fixture(GetParam()), {});
  for (int i = 0; i < 3; ++i) {
    const Tokens wanted = expected.json["greedy"][i].get<Tokens>();
    EXPECT_EQ(world.rank(0).greedy(expected.prompt(i), wanted.size()), wanted) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Fixture,
                         ::testing::Values("qwen3_moe", "qwen3_moe-v5", "qwen3_moe-variants"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Promise 1: the same bits however the rows come together.
class SameBits : public ::testing::TestWithParam<DType> {
 protected:
  static constexpr const char* kName = "qwen3_moe-variants";  // dense layer and experts, bias, YaRN

  static bool equal(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
  }
  WorldOptions options() const { return {.dtype = GetParam()}; }

  const Expected expected_{kName};
};

TEST_P(SameBits, WhateverThePrefillChunk) {
  ModelWorld world(fixture(kName), options());
  TestSequence whole;
  const std::vector<float> logits = world.rank(0).prefill(whole, expected_.prompt(2), kTestRows);
  for (const size_t chunk : {1, 7, 64}) {
    TestSequence sequence;
    EXPECT_TRUE(equal(world.rank(0).prefill(sequence, expected_.prompt(2), chunk), logits))
        << chunk;
  }
}

TEST_P(SameBits, AloneAndInABatch) {
  ModelWorld world(fixture(kName), options());
  WorldRank& rank = world.rank(0);
  TestSequence alone, together, other;
  std::vector<float> single = rank.prefill(alone, expected_.prompt(1), kTestRows);
  const std::vector<float> next = rank.step({{&alone, {5}}});
  single.insert(single.end(), next.begin(), next.end());

  Tokens other_prompt = expected_.prompt(2);
  std::vector<float> batch = rank.step({{&other, other_prompt}, {&together, expected_.prompt(1)}});
  const size_t vocab = world.config().vocab_size;
  batch.erase(batch.begin(), batch.begin() + other_prompt.size() * vocab);
  const std::vector<float> decode = rank.step({{&together, {5}}, {&other, {6, 7, 8}}});
  batch.insert(batch.end(), decode.begin(), decode.begin() + vocab);
  EXPECT_TRUE(equal(single, batch));
}

TEST_P(SameBits, WhateverTheThreads) {
  ModelWorld one(fixture(kName), {.dtype = GetParam(), .threads = 1});
  ModelWorld two(fixture(kName), {.dtype = GetParam(), .threads = 2});
  TestSequence a, b;
  EXPECT_TRUE(equal(one.rank(0).prefill(a, expected_.prompt(2), 64),
                    two.rank(0).prefill(b, expected_.prompt(2), 64)));
}

TEST_P(SameBits, WhateverTheRanks) {
  ModelWorld alone(fixture(kName), options());
  ModelWorld pair(fixture(kName), {.dtype = GetParam(), .num_ranks = 2});
  TestSequence sequence;
  const std::vector<float> logits = alone.rank(0).prefill(sequence, expected_.prompt(2), 64);
  std::vector<std::vector<float>> of_rank(2);
  pair.run_everywhere([&](int i) {
    TestSequence own;
    of_rank[i] = pair.rank(i).prefill(own, expected_.prompt(2), i == 0 ? 64 : 7);
  });
  EXPECT_TRUE(equal(of_rank[0], logits));
  EXPECT_TRUE(equal(of_rank[1], logits));
}

INSTANTIATE_TEST_SUITE_P(Types, SameBits, ::testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(BundledModel, AnswersItsFirstQuestionsAsTheReferenceDoes) {
  const std::string folder = FASTEEP_SOURCE_DIR "/models/fasteep-tiny";
  ModelWorld world(folder, {});
  const auto tokenizer = Tokenizer::load(folder);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  std::ifstream lines(folder + "/eval.jsonl");
  std::string line;
  for (int i = 0; i < 6 && std::getline(lines, line); ++i) {
    const Json entry = Json::parse(line);
    const auto prompt =
        tokenizer->encode("<|im_start|>user\n" + entry["question"].get<std::string>() +
                          "<|im_end|>\n<|im_start|>assistant\n");
    ASSERT_TRUE(prompt);
    EXPECT_EQ(world.rank(0).greedy(*prompt, 64, 2047), entry["reference_ids"].get<Tokens>())
        << line;
  }
}

TEST(Model, AWorkspaceThatDoesNotFitSaysSo) {
  const ModelConfig config = load_config(fixture("qwen3_moe")).value();
  DeviceLedger ledger(1 << 20);
  const auto workspace = Workspace::create(config, 64, ledger);
  ASSERT_FALSE(workspace);
  EXPECT_EQ(workspace.error().code(), ErrorCode::kExhausted);
}

}  // namespace
}  // namespace fasteep
