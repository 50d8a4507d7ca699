#include "model/attention_layer.h"

#include <cmath>

namespace fasteep {
namespace {

// Tokens of a KV block, from its size.
int block_tokens(const ModelConfig& config, DType dtype, const KvBlocks& kv) {
  const size_t per_token = config.kv_shape(dtype, 1).layer_block_bytes() * config.num_layers;
  CHECK(kv.block_bytes() % per_token == 0, "KV blocks of {} bytes, {} a token", kv.block_bytes(),
        per_token);
  return static_cast<int>(kv.block_bytes() / per_token);
}

// Columns [first, first + count) of a matrix.
Span2<float> columns(Span2<float> matrix, int first, int count) {
  return {matrix.data() + first, matrix.rows(), count, matrix.stride()};
}

}  // namespace

AttentionLayer::AttentionLayer(const ModelConfig& config, const ReplicatedWeights& weights,
                               Kernels& kernels, KvBlocks& kv, Workspace& workspace)
    : config_(config),
      weights_(weights),
      kernels_(kernels),
      kv_(kv),
      workspace_(workspace),
      rope_(config.rope, config.head_dim),
      shape_(config.kv_shape(weights.dtype(), block_tokens(config, weights.dtype(), kv))),
      scale_(1.0f / std::sqrt(static_cast<float>(config.head_dim))) {}

void AttentionLayer::begin(const Batch& batch) {
  const int rows = static_cast<int>(batch.tokens.size());
  const Span2<float> cos = workspace_.cos(rows), sin = workspace_.sin(rows);
  size_t num_blocks = 0;
  sequences_.clear();
  for (const BatchSequence& s : batch.sequences) {
    rope_.fill(s.first_position, cos.rows_at(s.first_row, s.num_rows),
               sin.rows_at(s.first_row, s.num_rows));
    sequences_.push_back({s.first_row, s.num_rows, s.first_position, {}});
    num_blocks += s.blocks.size();
  }
  batch_ = batch.sequences;
  blocks_.resize(num_blocks);
}

void AttentionLayer::point_at_blocks(int index) {
  size_t next = 0;
  for (size_t i = 0; i < batch_.size(); ++i) {
    const size_t first = next;
    for (const BlockId block : batch_[i].blocks) blocks_[next++] = kv_.layer_data(block, index);
    sequences_[i].blocks = std::span(blocks_).subspan(first, next - first);
  }
}

// RMSNorm of each head by itself. Rows are independent, so the walk over few rows or few heads is a
// matter of speed only.
void AttentionLayer::norm_heads(Span2<float> heads, std::span<const float> weight) {
  const int dim = config_.head_dim;
  const int64_t count = heads.cols() / dim;
  if (heads.rows() < count) {
    for (int64_t r = 0; r < heads.rows(); ++r) {
      const Span2<float> row(heads.row(r).data(), count, dim);
      kernels_.rms_norm(row, weight, config_.rms_norm_eps, weights_.dtype(), row);
    }
    return;
  }
  for (int64_t h = 0; h < count; ++h) {
    const Span2<float> head = columns(heads, static_cast<int>(h) * dim, dim);
    kernels_.rms_norm(head, weight, config_.rms_norm_eps, weights_.dtype(), head);
  }
}

void AttentionLayer::run(int index, Span2<float> x) {
  const LayerWeights& layer = weights_.layer(index);
  const int rows = static_cast<int>(x.rows()), dim = config_.head_dim;
  const int q_cols = config_.num_heads * dim, kv_cols = config_.num_kv_heads * dim;
  const Span2<float> normed = workspace_.normed(rows), qkv = workspace_.qkv(rows);
  const Span2<float> heads = workspace_.heads(rows), branch = workspace_.branch(rows);

  kernels_.rms_norm(x, layer.input_norm, config_.rms_norm_eps, weights_.dtype(), normed);
  kernels_.gemm(layer.qkv, normed, layer.qkv_bias, qkv);
  const Span2<float> q = columns(qkv, 0, q_cols), k = columns(qkv, q_cols, kv_cols),
                     v = columns(qkv, q_cols + kv_cols, kv_cols);
  if (config_.qk_norm) {
    norm_heads(q, layer.q_norm);
    norm_heads(k, layer.k_norm);
  }
  const Span2<float> cos = workspace_.cos(rows), sin = workspace_.sin(rows);
  kernels_.rope(q, dim, cos, sin);
  kernels_.rope(k, dim, cos, sin);
  point_at_blocks(index);
  kernels_.kv_append(shape_, sequences_, k, v);
  kernels_.attention(shape_, config_.num_heads, scale_, sequences_, q, heads);
  kernels_.gemm(layer.o, heads, layer.o_bias, branch);
  kernels_.add(branch, x);
}

}  // namespace fasteep
