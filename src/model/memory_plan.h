#pragma once
// What a rank needs before anything is loaded, by tag, and what is left for KV blocks.
#include <cstddef>
#include <string>

#include "base/result.h"
#include "model/model_config.h"

namespace fasteep {

struct MemoryRequest {
  DType dtype = DType::kBFloat16;
  int max_rows = 512;  // max_num_batched_tokens
  int num_slots = 0;   // expert slots of the rank, over all layers
  int block_tokens = 16;
  size_t exchange_bytes = 0;  // what of the window is expected to be touched
};

// Bytes in whole slabs, as the pools will commit them.
struct MemoryPlan {
  size_t replicated = 0, experts = 0, workspace = 0, exchange = 0, kv = 0;
  size_t total() const { return replicated + experts + workspace + exchange + kv; }
  std::string text() const;  // "replicated 1.20 GiB + experts 3.10 GiB + ..."
};

size_t kv_block_bytes(const ModelConfig& config, DType dtype, int block_tokens);
MemoryPlan plan_memory(const ModelConfig& config, const MemoryRequest& request, int kv_blocks);

// The KV blocks that fit a rank of `capacity_bytes`, at most `max_blocks`. Error kExhausted with
// all the numbers when not even one sequence of `min_tokens` would fit.
Result<int> kv_blocks_that_fit(const ModelConfig& config, const MemoryRequest& request,
                               size_t capacity_bytes, int min_tokens, int max_blocks);

}  // namespace fasteep
