#pragma once
// How much work a token is: the bytes and operations behind the bounds that the benchmark states.
#include <cstdint>

#include "model/model_config.h"

namespace fasteep {

struct ModelWork {
  double bytes_every_step = 0;  // packed weights that any step reads: attention, router, head
  double bytes_per_expert = 0;  // of one expert of one layer
  double moe_layers = 0, experts = 0, top_k = 0;
  double flops_per_token = 0;     // multiply-adds count two; without attention scores and the head
  double flops_head = 0;          // one row of logits
  double flops_per_attended = 0;  // per (query token, position seen), all layers

  // Weight bytes that a decode step of `sequences` reads when routing is even and independent:
  // experts * (1 - (1 - k / experts)^sequences) experts in each layer.
  double decode_step_bytes(int sequences) const;
  double prefill_flops(int tokens) const;
};

ModelWork model_work(const ModelConfig& config, DType dtype);

}  // namespace fasteep
