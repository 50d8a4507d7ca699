#include "model/model_config.h"

#include <algorithm>
#include <array>

#include "model/family.h"
#include "model/family_qwen3_moe.h"
#include "model/json_input.h"
#include "model/rope_config.h"

namespace fasteep {
namespace {

constexpr int kMaxWidth = 1 << 20;
constexpr size_t kMaxConfigBytes = 16 << 20;

std::string supported_types() {
  std::string names;
  for (const Family* family : families())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", family->model_type);
  return names;
}

Result<const Family*> parse_family(const JsonReader& reader) {
  FASTEEP_TRY(const std::string type, reader.text("model_type", ""));
  const Family* family = find_family(type);
  if (!family) return reader.wrong("model_type", "a supported architecture: " + supported_types());
  const nlohmann::json* names = reader.find("architectures");
  if (names && (!names->is_array() || names->size() != 1 || (*names)[0] != family->architecture))
    return reader.wrong("architectures", fmt::format("[\"{}\"]", family->architecture));
  return family;
}

// Everything that would change the mathematics if it were read over.
Result<void> refuse_unsupported(const JsonReader& reader) {
  FASTEEP_TRY(const std::string activation, reader.text("hidden_act", "silu"));
  if (activation != "silu") return reader.wrong("hidden_act", "silu");
  FASTEEP_TRY(const bool sliding, reader.boolean("use_sliding_window", false));
  if (sliding) return reader.wrong("use_sliding_window", "false (windows are not supported)");
  if (reader.has("quantization_config"))
    return reader.wrong("quantization_config",
                        "none: quantised weights are not supported, use the bfloat16 release");
  return {};
}

Result<void> parse_sizes(const JsonReader& reader, ModelConfig& config) {
  FASTEEP_TRY(config.vocab_size, reader.integer("vocab_size", 1, 1 << 24));
  FASTEEP_TRY(config.hidden_size, reader.integer("hidden_size", 1, kMaxWidth));
  FASTEEP_TRY(config.num_layers, reader.integer("num_hidden_layers", 1, 4096));
  FASTEEP_TRY(config.num_heads, reader.integer("num_attention_heads", 1, 4096));
  FASTEEP_TRY(config.num_kv_heads,
              reader.integer("num_key_value_heads", 1, 4096, config.num_heads));
  const int derived = std::max(1, config.hidden_size / config.num_heads);
  FASTEEP_TRY(config.head_dim, reader.integer("head_dim", 1, 4096, derived));
  FASTEEP_TRY(config.max_model_len, reader.integer("max_position_embeddings", 1, 1 << 28, 32768));
  FASTEEP_TRY(const double eps, reader.real("rms_norm_eps", 0, 1, 1e-6));
  config.rms_norm_eps = static_cast<float>(eps);
  FASTEEP_TRY(config.tied_embeddings, reader.boolean("tie_word_embeddings", false));
  FASTEEP_TRY(config.eos_ids, reader.integers("eos_token_id", 0, config.vocab_size - 1));
  return {};
}

Result<DType> parse_dtype(const JsonReader& reader) {
  FASTEEP_TRY(const std::string older, reader.text("torch_dtype", "float32"));
  FASTEEP_TRY(const std::string name, reader.text("dtype", older));
  if (name == "bfloat16") return DType::kBFloat16;
  if (name == "float32" || name == "float16") return DType::kFloat32;
  return reader.wrong(reader.has("dtype") ? "dtype" : "torch_dtype",
                      "bfloat16, float16 or float32");
}

Result<void> check_consistent(const JsonReader& reader, const ModelConfig& config) {
  if (config.num_heads % config.num_kv_heads != 0)
    return reader.wrong("num_key_value_heads", fmt::format("a divisor of {}", config.num_heads));
  if (config.head_dim % 2 != 0) return reader.wrong("head_dim", "an even number");
  if (config.num_moe_layers() == 0)
    return invalid_input("{}no layer is a mixture of experts: FastEEP serves only such models",
                         reader.where());
  if (config.top_k > config.num_experts)
    return reader.wrong("num_experts_per_tok", fmt::format("at most {}", config.num_experts));
  return {};
}

constexpr std::array<const Family*, 1> kFamilies = {&kQwen3MoeFamily};

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  for (const Family* family : families())
    if (family->model_type == model_type) return family;
  return nullptr;
}

int ModelConfig::num_moe_layers() const {
  return static_cast<int>(std::count(layers.begin(), layers.end(), LayerKind::kMoe));
}

ModelShape ModelConfig::moe_shape() const {
  ModelShape shape;
  shape.num_experts = num_experts;
  for (int i = 0; i < num_layers; ++i)
    if (layers[i] == LayerKind::kMoe) shape.moe_layers.push_back(LayerId(i));
  return shape;
}

Result<ModelConfig> parse_config(std::string_view text, const std::string& where) {
  FASTEEP_TRY(const nlohmann::json object, parse_json(text, where));
  if (!object.is_object()) return invalid_input("{}: not a JSON object", where);
  const JsonReader reader(object, where + ": ");
  ModelConfig config;
  FASTEEP_TRY(config.family, parse_family(reader));
  FASTEEP_TRY_VOID(refuse_unsupported(reader));
  FASTEEP_TRY_VOID(parse_sizes(reader, config));
  FASTEEP_TRY(config.native_dtype, parse_dtype(reader));
  FASTEEP_TRY(config.rope, parse_rope(reader, config.max_model_len));
  FASTEEP_TRY_VOID(config.family->parse(reader, config));
  FASTEEP_TRY_VOID(check_consistent(reader, config));
  return config;
}

Result<ModelConfig> load_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  FASTEEP_TRY(const std::string text, read_text_file(path, kMaxConfigBytes));
  return parse_config(text, path);
}

}  // namespace fasteep
