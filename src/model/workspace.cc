#include "model/workspace.h"

#include "model/carver.h"

namespace fasteep {

Workspace::Buffers Workspace::carve(Carver& carver, const ModelConfig& config, size_t rows) {
  const size_t hidden = rows * config.hidden_size;
  Buffers buffers = {};
  buffers.x = carver.array<float>(hidden);
  buffers.normed = carver.array<float>(hidden);
  buffers.branch = carver.array<float>(hidden);
  buffers.qkv = carver.array<float>(rows * config.qkv_outputs());
  buffers.heads = carver.array<float>(rows * config.qkv_outputs());
  buffers.router_logits = carver.array<float>(rows * config.num_experts);
  buffers.expert_weights = carver.array<float>(rows * config.top_k);
  buffers.expert_ids = carver.array<int32_t>(rows * config.top_k);
  buffers.cos = carver.array<float>(rows * config.head_dim / 2);
  buffers.sin = carver.array<float>(rows * config.head_dim / 2);
  buffers.rounded = carver.bytes(hidden * sizeof(float));
  return buffers;
}

size_t workspace_size_bytes(const ModelConfig& config, int max_rows) {
  Carver carver;
  Workspace::carve(carver, config, static_cast<size_t>(max_rows));
  return carver.used_bytes();
}

Workspace::Workspace(MemoryPool pool, const ModelConfig& config, int max_rows)
    : pool_(std::move(pool)), config_(&config), max_rows_(max_rows) {
  Carver carver(pool_.base());
  buffers_ = carve(carver, config, static_cast<size_t>(max_rows));
}

Result<Workspace> Workspace::create(const ModelConfig& config, int max_rows, DeviceLedger& ledger) {
  CHECK(max_rows >= 1, "a workspace of {} rows", max_rows);
  const size_t size = workspace_size_bytes(config, max_rows);
  FASTEEP_TRY(MemoryPool pool, MemoryPool::create(PoolTag::kWorkspace, size, ledger));
  FASTEEP_TRY_VOID(pool.commit(0, size));
  return Workspace(std::move(pool), config, max_rows);
}

}  // namespace fasteep
