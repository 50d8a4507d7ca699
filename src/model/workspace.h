#pragma once
// The activations of one forward pass, in one pool sized from the most rows of a batch.
#include "base/result.h"
#include "base/span2.h"
#include "memory/pool.h"
#include "model/model_config.h"

namespace fasteep {

class Carver;

// Exact bytes, before the pool rounds up to slabs.
size_t workspace_size_bytes(const ModelConfig& config, int max_rows);

// Threads: the rank's step thread.
class Workspace {
 public:
  // max_rows: max_num_batched_tokens.
  static Result<Workspace> create(const ModelConfig& config, int max_rows, DeviceLedger& ledger);

  int max_rows() const { return max_rows_; }
  size_t committed_bytes() const { return pool_.committed_bytes(); }

  // The first `rows` rows of each buffer. The residual stream:
  Span2<float> x(int rows) const { return {buffers_.x, rows, config_->hidden_size}; }
  Span2<float> normed(int rows) const { return {buffers_.normed, rows, config_->hidden_size}; }
  // A sublayer's output before it is added to x:
  Span2<float> branch(int rows) const { return {buffers_.branch, rows, config_->hidden_size}; }
  Span2<float> qkv(int rows) const { return {buffers_.qkv, rows, config_->qkv_outputs()}; }
  // Attention's output, as far apart as the rows of qkv: the kernel takes one stride for q and out.
  Span2<float> heads(int rows) const {
    return {buffers_.heads, rows, config_->num_heads * config_->head_dim, config_->qkv_outputs()};
  }
  Span2<float> router_logits(int rows) const {
    return {buffers_.router_logits, rows, config_->num_experts};
  }
  Span2<int32_t> expert_ids(int rows) const { return {buffers_.expert_ids, rows, config_->top_k}; }
  Span2<float> expert_weights(int rows) const {
    return {buffers_.expert_weights, rows, config_->top_k};
  }
  Span2<float> cos(int rows) const { return {buffers_.cos, rows, config_->head_dim / 2}; }
  Span2<float> sin(int rows) const { return {buffers_.sin, rows, config_->head_dim / 2}; }
  // Rows rounded to the model's type, for dense layers: [max_rows, hidden], at most 4 bytes each.
  std::byte* rounded() const { return buffers_.rounded; }

 private:
  struct Buffers {
    float *x, *normed, *branch, *qkv, *heads, *router_logits, *expert_weights, *cos, *sin;
    int32_t* expert_ids;
    std::byte* rounded;
  };
  friend size_t workspace_size_bytes(const ModelConfig& config, int max_rows);
  static Buffers carve(Carver& carver, const ModelConfig& config, size_t rows);
  Workspace(MemoryPool pool, const ModelConfig& config, int max_rows);

  MemoryPool pool_;
  const ModelConfig* config_;
  int max_rows_ = 0;
  Buffers buffers_ = {};
};

}  // namespace fasteep
