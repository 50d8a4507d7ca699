#include "model/memory_plan.h"

#include <algorithm>

#include "base/settings_table.h"
#include "memory/pool.h"
#include "model/replicated_weights.h"
#include "model/workspace.h"

namespace fasteep {
namespace {

size_t slabs(size_t bytes) { return (bytes + kSlabBytes - 1) / kSlabBytes * kSlabBytes; }

}  // namespace

std::string MemoryPlan::text() const {
  return fmt::format("replicated {} + experts {} + workspace {} + exchange {} + kv {} = {}",
                     format_bytes(replicated), format_bytes(experts), format_bytes(workspace),
                     format_bytes(exchange), format_bytes(kv), format_bytes(total()));
}

size_t kv_block_bytes(const ModelConfig& config, DType dtype, int block_tokens) {
  return config.kv_shape(dtype, block_tokens).layer_block_bytes() * config.num_layers;
}

MemoryPlan plan_memory(const ModelConfig& config, const MemoryRequest& request, int kv_blocks) {
  MemoryPlan plan;
  plan.replicated = slabs(replicated_size_bytes(config, request.dtype));
  plan.experts = slabs(ffn_size_bytes(config.expert_shape(request.dtype)) * request.num_slots);
  plan.workspace = slabs(workspace_size_bytes(config, request.max_rows));
  plan.exchange = slabs(request.exchange_bytes);
  plan.kv = slabs(kv_block_bytes(config, request.dtype, request.block_tokens) * kv_blocks);
  return plan;
}

Result<int> kv_blocks_that_fit(const ModelConfig& config, const MemoryRequest& request,
                               size_t capacity_bytes, int min_tokens, int max_blocks) {
  const MemoryPlan fixed = plan_memory(config, request, 0);
  const size_t block = kv_block_bytes(config, request.dtype, request.block_tokens);
  const size_t left = capacity_bytes > fixed.total() ? capacity_bytes - fixed.total() : 0;
  const size_t fitting = left / kSlabBytes * kSlabBytes / block;
  const size_t least = (min_tokens + request.block_tokens - 1) / request.block_tokens;
  if (fitting >= least) return static_cast<int>(std::min<size_t>(fitting, max_blocks));
  return make_error(ErrorCode::kExhausted,
                    "not enough memory: a rank has {} and needs {} without KV; {} more hold the KV "
                    "of one sequence "
                    "of {} tokens: raise --device-memory, use more ranks, or lower --max-model-len",
                    format_bytes(capacity_bytes), fixed.text(), format_bytes(slabs(least * block)),
                    min_tokens);
}

}  // namespace fasteep
