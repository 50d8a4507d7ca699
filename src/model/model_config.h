#pragma once
// config.json as one engine-neutral description of the architecture. What differs between families
// is read by their Family (family.h); nothing else in the engine asks for a model's type.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/ids.h"
#include "base/result.h"
#include "kernels/attention.h"
#include "kernels/kernels.h"
#include "placement/view.h"

namespace fasteep {

struct Family;

enum class LayerKind : uint8_t { kDense, kMoe };
enum class RopeType : uint8_t { kDefault, kLinear, kYarn };
std::string_view to_string(RopeType type);

struct RopeParams {
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  double factor = 1;                  // linear, yarn
  double original_max_positions = 0;  // yarn, as the five below
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;
  std::optional<double> attention_factor;
  std::optional<double> mscale, mscale_all_dim;
};

struct ModelConfig {
  const Family* family = nullptr;  // static lifetime
  int vocab_size = 0;              // rows of the embedding; often more than the tokenizer has
  int hidden_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;            // num_heads * head_dim need not be hidden_size
  int dense_intermediate = 0;  // of dense layers
  int moe_intermediate = 0;    // of one expert
  int num_experts = 0;         // logical experts per MoE layer
  int top_k = 0;
  bool normalise_topk = false;
  bool attention_bias = false;  // on q, k, v and o
  bool qk_norm = false;         // RMSNorm per head before RoPE
  bool tied_embeddings = false;
  float rms_norm_eps = 1e-6f;
  RopeParams rope;
  int max_model_len = 0;
  std::vector<LayerKind> layers;  // [num_layers]
  std::vector<TokenId> eos_ids;   // config.json's only: see generation_config.h
  // What "auto" means: the checkpoint's bfloat16, else float32 (float16 loses nothing there).
  DType native_dtype = DType::kBFloat16;

  int num_moe_layers() const;
  int qkv_outputs() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
  FfnShape expert_shape(DType dtype) const { return {dtype, hidden_size, moe_intermediate}; }
  FfnShape dense_shape(DType dtype) const { return {dtype, hidden_size, dense_intermediate}; }
  KvShape kv_shape(DType dtype, int block_tokens) const {
    return {dtype, num_kv_heads, head_dim, block_tokens};
  }
  ModelShape moe_shape() const;
};

// `text` is config.json's; `where` names the file in errors. Refused with a reason: unknown model
// types and RoPE types, other activations than silu, sliding windows, quantised weights.
Result<ModelConfig> parse_config(std::string_view text, const std::string& where);
// folder/config.json.
Result<ModelConfig> load_config(const std::string& folder);

}  // namespace fasteep
