#include "cli/model_work.h"

#include <cmath>

#include "kernels/packed_matrix.h"

namespace fasteep {
namespace {

double matrix_bytes(DType dtype, int outputs, int inputs) {
  return static_cast<double>(packed_size_bytes(dtype, outputs, inputs));
}

}  // namespace

double ModelWork::decode_step_bytes(int sequences) const {
  if (experts == 0) return bytes_every_step;
  const double touched = experts * (1 - std::pow(1 - top_k / experts, sequences));
  return bytes_every_step + moe_layers * touched * bytes_per_expert;
}

double ModelWork::prefill_flops(int tokens) const {
  const double attended = 0.5 * tokens * (tokens + 1.0);
  return tokens * flops_per_token + attended * flops_per_attended + flops_head;
}

ModelWork model_work(const ModelConfig& config, DType dtype) {
  ModelWork work;
  const int heads_width = config.num_heads * config.head_dim;
  work.moe_layers = config.num_moe_layers();
  work.experts = config.num_experts;
  work.top_k = config.top_k;
  work.bytes_per_expert =
      work.moe_layers > 0 ? static_cast<double>(ffn_size_bytes(config.expert_shape(dtype))) : 0;
  const double hidden = config.hidden_size;
  for (const LayerKind kind : config.layers) {
    work.bytes_every_step += matrix_bytes(dtype, config.qkv_outputs(), config.hidden_size) +
                             matrix_bytes(dtype, config.hidden_size, heads_width);
    work.flops_per_token += 2 * hidden * (config.qkv_outputs() + heads_width);
    work.flops_per_attended += 4.0 * heads_width;
    if (kind == LayerKind::kMoe) {
      work.bytes_every_step +=
          matrix_bytes(DType::kFloat32, config.num_experts, config.hidden_size);
      work.flops_per_token +=
          2 * hidden * (config.num_experts + 3.0 * config.top_k * config.moe_intermediate);
    } else {
      work.bytes_every_step += static_cast<double>(ffn_size_bytes(config.dense_shape(dtype)));
      work.flops_per_token += 6 * hidden * config.dense_intermediate;
    }
  }
  work.bytes_every_step += matrix_bytes(dtype, config.vocab_size, config.hidden_size);
  work.flops_head = 2.0 * hidden * config.vocab_size;
  return work;
}

}  // namespace fasteep
