#include "model/family_qwen3_moe.h"

#include <algorithm>

namespace fasteep {
namespace {

constexpr int kMaxWidth = 1 << 20;

Result<void> parse_layers(const JsonReader& reader, ModelConfig& config) {
  FASTEEP_TRY(const int step, reader.integer("decoder_sparse_step", 1, 1 << 16, 1));
  FASTEEP_TRY(const std::vector<int> dense, reader.integers("mlp_only_layers", 0, 1 << 16));
  for (int i = 0; i < config.num_layers; ++i) {
    const bool listed = std::find(dense.begin(), dense.end(), i) != dense.end();
    const bool moe = !listed && config.num_experts > 0 && (i + 1) % step == 0;
    config.layers.push_back(moe ? LayerKind::kMoe : LayerKind::kDense);
  }
  return {};
}

Result<void> parse_qwen3_moe(const JsonReader& reader, ModelConfig& config) {
  FASTEEP_TRY(config.num_experts, reader.integer("num_experts", 0, 65535, 128));
  FASTEEP_TRY(config.top_k, reader.integer("num_experts_per_tok", 1, 255, 8));
  FASTEEP_TRY(config.moe_intermediate, reader.integer("moe_intermediate_size", 1, kMaxWidth, 768));
  FASTEEP_TRY(config.dense_intermediate, reader.integer("intermediate_size", 1, kMaxWidth, 6144));
  FASTEEP_TRY(config.normalise_topk, reader.boolean("norm_topk_prob", false));
  FASTEEP_TRY(config.attention_bias, reader.boolean("attention_bias", false));
  config.qk_norm = true;
  return parse_layers(reader, config);
}

std::string_view layer_suffix(WeightRole role) {
  switch (role) {
    case WeightRole::kInputNorm:
      return "input_layernorm.weight";
    case WeightRole::kPostNorm:
      return "post_attention_layernorm.weight";
    case WeightRole::kQ:
      return "self_attn.q_proj.weight";
    case WeightRole::kK:
      return "self_attn.k_proj.weight";
    case WeightRole::kV:
      return "self_attn.v_proj.weight";
    case WeightRole::kO:
      return "self_attn.o_proj.weight";
    case WeightRole::kQBias:
      return "self_attn.q_proj.bias";
    case WeightRole::kKBias:
      return "self_attn.k_proj.bias";
    case WeightRole::kVBias:
      return "self_attn.v_proj.bias";
    case WeightRole::kOBias:
      return "self_attn.o_proj.bias";
    case WeightRole::kQNorm:
      return "self_attn.q_norm.weight";
    case WeightRole::kKNorm:
      return "self_attn.k_norm.weight";
    case WeightRole::kRouter:
      return "mlp.gate.weight";
    case WeightRole::kDenseGate:
      return "mlp.gate_proj.weight";
    case WeightRole::kDenseUp:
      return "mlp.up_proj.weight";
    case WeightRole::kDenseDown:
      return "mlp.down_proj.weight";
    case WeightRole::kFusedGateUp:
      return "mlp.experts.gate_up_proj";
    case WeightRole::kFusedDown:
      return "mlp.experts.down_proj";
    default:
      return {};
  }
}

std::string tensor_name(WeightRole role, int layer, int expert) {
  switch (role) {
    case WeightRole::kEmbedding:
      return "model.embed_tokens.weight";
    case WeightRole::kFinalNorm:
      return "model.norm.weight";
    case WeightRole::kLmHead:
      return "lm_head.weight";
    case WeightRole::kExpertGate:
      return fmt::format("model.layers.{}.mlp.experts.{}.gate_proj.weight", layer, expert);
    case WeightRole::kExpertUp:
      return fmt::format("model.layers.{}.mlp.experts.{}.up_proj.weight", layer, expert);
    case WeightRole::kExpertDown:
      return fmt::format("model.layers.{}.mlp.experts.{}.down_proj.weight", layer, expert);
    default:
      return fmt::format("model.layers.{}.{}", layer, layer_suffix(role));
  }
}

// Buffers that old checkpoints stored, and a head that tied embeddings make superfluous.
bool is_skipped(const ModelConfig& config, std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.masked_bias") ||
         (config.tied_embeddings && name == "lm_head.weight");
}

}  // namespace

const Family kQwen3MoeFamily = {"qwen3_moe", "Qwen3MoeForCausalLM", parse_qwen3_moe, tensor_name,
                                is_skipped};

}  // namespace fasteep
