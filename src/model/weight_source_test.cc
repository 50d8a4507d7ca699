#include "model/weight_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "model/inspect.h"
#include "model/memory_plan.h"
#include "model/safetensors_writer.h"
#include "model/synth.h"
#include "model/test_support.h"

namespace fasteep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ModelConfig config_of(const std::string& name) {
  auto config = load_config(fixture(name));
  CHECK(config.has_value(), "{}", config.error().message());
  return *config;
}

TEST(WeightSource, BothExpertLayoutsGiveTheSameBytes) {
  const ModelConfig config = config_of("qwen3_moe");
  const auto plain = Checkpoint::open(fixture("qwen3_moe"));
  const auto fused = Checkpoint::open(fixture("qwen3_moe-v5"));
  ASSERT_TRUE(plain && fused);
  const auto a = WeightSource::create(*plain, config), b = WeightSource::create(*fused, config);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->layout(), ExpertLayout::kPerExpert);
  EXPECT_EQ(b->layout(), ExpertLayout::kFused);
  const ExpertTensors one = a->expert(2, 13), two = b->expert(2, 13);
  for (const auto& [left, right] :
       {std::pair(one.gate, two.gate), std::pair(one.up, two.up), std::pair(one.down, two.down)}) {
    EXPECT_EQ(left.shape, right.shape);
    ASSERT_EQ(left.bytes.size(), right.bytes.size());
    EXPECT_EQ(std::memcmp(left.bytes.data(), right.bytes.data(), left.bytes.size()), 0);
  }
}

TEST(WeightSource, ReportsAllProblemsTogether) {
  ModelConfig config = config_of("qwen3_moe");
  config.attention_bias = true;  // 12 tensors more
  config.moe_intermediate = 64;  // every expert tensor has another shape
  config.num_experts = 15;       // each layer holds 3 tensors more, its router another shape
  const auto checkpoint = Checkpoint::open(fixture("qwen3_moe"));
  ASSERT_TRUE(checkpoint);
  const WeightProblems problems = compare_weights(*checkpoint, config);
  EXPECT_EQ(problems.missing.size(), 12u);
  EXPECT_EQ(problems.unknown.size(), 9u);
  EXPECT_EQ(problems.wrong.size(), 3u * (15 * 3 + 1));
  const auto source = WeightSource::create(*checkpoint, config);
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message(),
              AllOf(HasSubstr("model.layers.2.self_attn.o_proj.bias"),
                    HasSubstr("model.layers.0.mlp.experts.15.up_proj.weight"),
                    HasSubstr("[32, 64], the config asks for [64, 64]"), HasSubstr("88 more")));
}

TEST(WeightSource, TiedEmbeddingsMakeAHeadSuperfluous) {
  ModelConfig config = config_of("qwen3_moe");
  config.tied_embeddings = true;
  const auto checkpoint = Checkpoint::open(fixture("qwen3_moe"));
  ASSERT_TRUE(checkpoint);
  EXPECT_TRUE(compare_weights(*checkpoint, config).empty());
}

TEST(WeightPlan, CountsParametersAsPublished) {
  const char* real = R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"],
      "vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
      "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
      "moe_intermediate_size": 768, "norm_topk_prob": true})";
  const auto config = parse_config(real, "config.json");
  ASSERT_TRUE(config) << config.error().message();
  const ParameterCount count = count_parameters(*config);
  EXPECT_NEAR(static_cast<double>(count.total) * 1e-9, 30.53, 0.005);
  EXPECT_NEAR(static_cast<double>(count.active) * 1e-9, 3.35, 0.05);
  EXPECT_EQ(kv_block_bytes(*config, DType::kBFloat16, 1), 96u << 10);
}

TEST(MemoryPlan, SaysTheNumbersWhenThereIsNoRoom) {
  const ModelConfig config = config_of("qwen3_moe");
  const MemoryRequest request = {.dtype = DType::kFloat32, .max_rows = 64, .num_slots = 48};
  const auto none = kv_blocks_that_fit(config, request, 4 << 20, 512, 1000);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), ErrorCode::kExhausted);
  EXPECT_THAT(none.error().message(), AllOf(HasSubstr("4.00 MiB"), HasSubstr("--device-memory")));
}

TEST(MemoryPlan, BlocksFillTheBudgetAndNoMore) {
  const ModelConfig config = config_of("qwen3_moe");
  const MemoryRequest request = {.dtype = DType::kFloat32, .max_rows = 64, .num_slots = 48};
  const size_t capacity = 64 << 20;
  const auto blocks = kv_blocks_that_fit(config, request, capacity, 512, 1 << 20);
  ASSERT_TRUE(blocks);
  EXPECT_LE(plan_memory(config, request, *blocks).total(), capacity);
  EXPECT_GT(plan_memory(config, request, *blocks + 1).total(), capacity);
  EXPECT_EQ(*kv_blocks_that_fit(config, request, capacity, 512, 40), 40);
}

TEST(Synth, MakesACheckpointThatLoads) {
  const TemporaryFolder folder;
  const auto config_json = synth_preset("tiny");
  ASSERT_TRUE(config_json);
  const SynthOptions options = {
      .folder = folder.file("new/model"), .seed = 7, .threads = 2, .shard_bytes = 300'000};
  size_t reported = 0, total = 0;
  const auto made = synthesize(*config_json, options, [&](size_t done, size_t all) {
    reported = done;
    total = all;
  });
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(reported, total);
  const auto inspection = inspect_model(options.folder);
  ASSERT_TRUE(inspection) << inspection.error().message();
  EXPECT_THAT(inspection->problems, IsEmpty()) << inspection->report;
  EXPECT_THAT(inspection->report, Not(HasSubstr(" in 1 files")));
}

TEST(Synth, SameSeedSameBytesWhateverTheThreads) {
  const TemporaryFolder folder;
  const auto config = synth_preset("tiny");
  ASSERT_TRUE(config);
  const std::pair<uint64_t, int> runs[] = {{1, 1}, {1, 3}, {2, 1}};
  std::vector<std::string> bytes;
  for (const auto& [seed, threads] : runs) {
    const std::string path = folder.file(fmt::format("{}-{}", seed, threads));
    ASSERT_TRUE(synthesize(*config, {.folder = path, .seed = seed, .threads = threads}));
    bytes.push_back(read_bytes(path + "/model.safetensors"));
  }
  EXPECT_TRUE(bytes[0] == bytes[1]);
  EXPECT_FALSE(bytes[0] == bytes[2]);
}

TEST(Synth, RefusesAFolderInUse) {
  const TemporaryFolder folder;
  folder.write("notes.txt", "mine");
  const auto made = synthesize(*synth_preset("tiny"), {.folder = folder.path()});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), HasSubstr("not empty"));
  EXPECT_THAT(synth_preset("huge").error().message(), HasSubstr("tiny, bench-s"));
}

TEST(Inspect, DescribesTheVariants) {
  const auto inspection = inspect_model(fixture("qwen3_moe-variants"));
  ASSERT_TRUE(inspection);
  EXPECT_THAT(inspection->report,
              AllOf(HasSubstr("2 mixture of experts, 1 dense"), HasSubstr("yarn"),
                    HasSubstr("tied to the embeddings"), HasSubstr("problems        none")));
}

TEST(Inspect, ListsProblemsInsteadOfStopping) {
  const TemporaryFolder folder;
  folder.write("config.json", read_bytes(fixture("qwen3_moe") + "/config.json"));
  const auto inspection = inspect_model(folder.path());
  ASSERT_TRUE(inspection);
  EXPECT_THAT(inspection->problems,
              ElementsAre(HasSubstr("model.safetensors"), HasSubstr("tokenizer.json")));
}

}  // namespace
}  // namespace fasteep
