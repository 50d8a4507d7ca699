#include "model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/generation_config.h"
#include "model/json_input.h"
#include "model/test_support.h"

namespace fasteep {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json plain_config() { return Json::parse(read_bytes(fixture("qwen3_moe") + "/config.json")); }

Result<ModelConfig> parse(const Json& config) { return parse_config(config.dump(), "config.json"); }

Result<ModelConfig> parse_with(const std::string& key, const Json& value) {
  Json config = plain_config();
  config[key] = value;
  return parse(config);
}

TEST(ModelConfig, ReadsSizesOfTheFixture) {
  const auto config = load_config(fixture("qwen3_moe"));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->head_dim, 32);  // 4 heads of 32 are not hidden_size: it must not be derived
  EXPECT_EQ(config->qkv_outputs(), (4 + 2 * 2) * 32);
  EXPECT_EQ(config->num_moe_layers(), 3);
  EXPECT_TRUE(config->normalise_topk);
  EXPECT_EQ(config->native_dtype, DType::kBFloat16);
  EXPECT_EQ(config->max_model_len, 512);
  EXPECT_THAT(config->eos_ids, ElementsAre(511));
}

TEST(ModelConfig, BothRopeSpellingsMeanTheSame) {
  const auto older = load_config(fixture("qwen3_moe"));
  const auto newer = load_config(fixture("qwen3_moe-v5"));
  ASSERT_TRUE(older && newer);
  EXPECT_EQ(older->rope.theta, 1e6);
  EXPECT_EQ(newer->rope.theta, 1e6);
  EXPECT_EQ(newer->rope.type, RopeType::kDefault);
}

TEST(ModelConfig, ReadsVariants) {
  const auto config = load_config(fixture("qwen3_moe-variants"));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->rope.type, RopeType::kYarn);
  EXPECT_EQ(config->layers[0], LayerKind::kDense);
  EXPECT_EQ(config->layers[1], LayerKind::kMoe);
  EXPECT_TRUE(config->attention_bias);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_FALSE(config->normalise_topk);
}

TEST(ModelConfig, AbsentKeysTakeTheFamilysDefaults) {
  Json config = plain_config();
  for (const char* key : {"norm_topk_prob", "head_dim", "num_key_value_heads", "rope_theta"})
    config.erase(key);
  const auto parsed = parse(config);
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_FALSE(parsed->normalise_topk);
  EXPECT_EQ(parsed->head_dim, 16);
  EXPECT_EQ(parsed->num_kv_heads, 4);
  EXPECT_EQ(parsed->rope.theta, 10000);
}

TEST(ModelConfig, SparseStepChoosesLayers) {
  const auto parsed = parse_with("decoder_sparse_step", 2);
  ASSERT_TRUE(parsed);
  EXPECT_THAT(parsed->layers, ElementsAre(LayerKind::kDense, LayerKind::kMoe, LayerKind::kDense));
}

TEST(ModelConfig, LinearRopeKeepsItsFactor) {
  const auto parsed = parse_with("rope_scaling", {{"type", "linear"}, {"factor", 4}});
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(parsed->rope.type, RopeType::kLinear);
  EXPECT_EQ(parsed->rope.factor, 4);
}

struct Refused {
  const char* key;
  Json value;
  const char* says;
};
class ConfigRefusal : public ::testing::TestWithParam<Refused> {};

TEST_P(ConfigRefusal, NamesTheKeyAndWhatIsExpected) {
  const auto parsed = parse_with(GetParam().key, GetParam().value);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code(), ErrorCode::kInvalidInput);
  EXPECT_THAT(parsed.error().message(),
              AllOf(HasSubstr("config.json"), HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    All, ConfigRefusal,
    ::testing::Values(
        Refused{"model_type", "llama", "supported architecture: qwen3_moe"},
        Refused{"architectures", {"Qwen3MoeForSequenceClassification"}, "Qwen3MoeForCausalLM"},
        Refused{"hidden_act", "gelu", "silu"},
        Refused{"use_sliding_window", true, "use_sliding_window"},
        Refused{"quantization_config", {{"quant_method", "fp8"}}, "quantization_config"},
        Refused{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2}}, "dynamic"},
        Refused{"rope_scaling", {{"rope_type", "yarn"}}, "factor"},
        Refused{"rope_scaling", "yarn", "rope_scaling"},
        Refused{"rope_parameters", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
        Refused{"hidden_size", -1, "hidden_size"}, Refused{"hidden_size", 1e30, "hidden_size"},
        Refused{"hidden_size", "64", "hidden_size"}, Refused{"hidden_size", 64.5, "hidden_size"},
        Refused{"vocab_size", nullptr, "absent"},
        Refused{"num_key_value_heads", 3, "num_key_value_heads"},
        Refused{"num_experts_per_tok", 17, "num_experts_per_tok"},
        Refused{"num_experts", 0, "mixture of experts"},
        Refused{"eos_token_id", 512, "eos_token_id"},
        Refused{"torch_dtype", "float8", "torch_dtype"}));

TEST(ModelConfig, RefusesWhatIsNotJson) {
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("{\"a\": \"\xff\"}"),
        std::string(100000, '['), std::string()})
    EXPECT_FALSE(parse_config(text, "config.json")) << text.substr(0, 20);
}

TEST(ModelConfig, MissingFolderIsNotFound) {
  const auto config = load_config("/nowhere");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(config.error().message(), HasSubstr("/nowhere/config.json"));
}

ModelConfig with_eos(std::vector<TokenId> ids) {
  ModelConfig config;
  config.vocab_size = 1000;
  config.eos_ids = std::move(ids);
  return config;
}

TEST(GenerationConfig, StopIdsAreTheUnionOfBothFiles) {
  const auto generation = parse_generation_config(R"({"eos_token_id": [7, 5]})",
                                                  "generation_config.json", with_eos({5, 9}));
  ASSERT_TRUE(generation);
  EXPECT_THAT(generation->eos_ids, ElementsAre(5, 7, 9));
}

TEST(GenerationConfig, ValuesAreDefaultsWhateverDoSampleSays) {
  const auto generation = parse_generation_config(
      R"({"do_sample": false, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "max_new_tokens": 99})",
      "generation_config.json", with_eos({}));
  ASSERT_TRUE(generation);
  EXPECT_EQ(generation->temperature, 0.6);
  EXPECT_EQ(generation->top_k, 20);
  EXPECT_EQ(generation->top_p, 0.95);
  EXPECT_EQ(generation->max_new_tokens, 99);
  EXPECT_EQ(generation->min_p, std::nullopt);
}

TEST(GenerationConfig, SaysWhatHasNoEffect) {
  const auto generation = parse_generation_config(
      R"({"repetition_penalty": 1.05, "typical_p": 1.0})", "generation_config.json", with_eos({}));
  ASSERT_TRUE(generation);
  EXPECT_THAT(generation->warnings, ElementsAre(HasSubstr("repetition_penalty = 1.05")));
}

TEST(GenerationConfig, AFolderMayLackTheFile) {
  const TemporaryFolder folder;
  const auto generation = load_generation_config(folder.path(), with_eos({3}));
  ASSERT_TRUE(generation);
  EXPECT_THAT(generation->eos_ids, ElementsAre(3));
  EXPECT_THAT(generation->warnings, IsEmpty());
}

TEST(GenerationConfig, RefusesNonsense) {
  EXPECT_FALSE(parse_generation_config(R"({"temperature": -1})", "g", with_eos({})));
  EXPECT_FALSE(parse_generation_config(R"({"eos_token_id": 1000})", "g", with_eos({})));
  EXPECT_FALSE(parse_generation_config(R"({"top_p": "high"})", "g", with_eos({})));
}

}  // namespace
}  // namespace fasteep
