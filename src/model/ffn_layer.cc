#include "model/ffn_layer.h"

namespace fasteep {

FfnLayer::FfnLayer(const ModelConfig& config, const ReplicatedWeights& weights, Kernels& kernels,
                   Exchange& exchange, Workspace& workspace)
    : config_(config),
      weights_(weights),
      kernels_(kernels),
      exchange_(exchange),
      workspace_(workspace) {
  const Span2<float> branch = workspace.branch(workspace.max_rows());
  const size_t row_bytes = static_cast<size_t>(config.hidden_size) * size_bytes(weights.dtype());
  for (int r = 0; r < workspace.max_rows(); ++r) {
    inputs_.push_back(workspace.rounded() + r * row_bytes);
    outputs_.push_back(branch.row(r).data());
  }
}

Result<void> FfnLayer::run(int index, Span2<float> x) {
  const Span2<float> normed = workspace_.normed(static_cast<int>(x.rows()));
  kernels_.rms_norm(x, weights_.layer(index).post_norm, config_.rms_norm_eps, weights_.dtype(),
                    normed);
  if (config_.layers[index] == LayerKind::kMoe) return run_moe(index, normed, x);
  run_dense(index, normed, x);
  return {};
}

Result<void> FfnLayer::run_moe(int index, Span2<const float> normed, Span2<float> x) {
  const int rows = static_cast<int>(x.rows());
  const Span2<float> logits = workspace_.router_logits(rows);
  const Span2<int32_t> ids = workspace_.expert_ids(rows);
  const Span2<float> weights = workspace_.expert_weights(rows);
  kernels_.gemm(weights_.layer(index).router, normed, {}, logits);
  const Result<void> routed =
      kernels_.route_topk(logits, config_.top_k, config_.normalise_topk, ids, weights);
  if (!routed) return routed.error().with("router of layer {}", index);
  return exchange_.run_layer(LayerId(index), normed, ids, weights, x);
}

void FfnLayer::run_dense(int index, Span2<const float> normed, Span2<float> x) {
  const int rows = static_cast<int>(x.rows());
  const size_t count = static_cast<size_t>(rows);
  kernels_.round_rows(normed, weights_.dtype(), workspace_.rounded());
  const FfnGroup group = {weights_.layer(index).dense_ffn, 0, rows};
  kernels_.grouped_ffn(config_.dense_shape(weights_.dtype()), {&group, 1},
                       std::span(inputs_).first(count), std::span(outputs_).first(count));
  kernels_.add(workspace_.branch(rows), x);
}

}  // namespace fasteep
