#pragma once
// The other half of every layer: norm, then a mixture of experts through the exchange, or a dense
// SwiGLU here.
#include <vector>

#include "exchange/exchange.h"
#include "kernels/kernels.h"
#include "model/replicated_weights.h"
#include "model/workspace.h"

namespace fasteep {

// Threads: the rank's step thread. Everything handed in outlives it.
class FfnLayer {
 public:
  FfnLayer(const ModelConfig& config, const ReplicatedWeights& weights, Kernels& kernels,
           Exchange& exchange, Workspace& workspace);

  // x[r, :] += FFN of layer `index`. Errors: the exchange's; kInvalidInput if a router's logit is
  // not finite.
  Result<void> run(int index, Span2<float> x);

 private:
  Result<void> run_moe(int index, Span2<const float> normed, Span2<float> x);
  void run_dense(int index, Span2<const float> normed, Span2<float> x);

  const ModelConfig& config_;
  const ReplicatedWeights& weights_;
  Kernels& kernels_;
  Exchange& exchange_;
  Workspace& workspace_;
  std::vector<const std::byte*> inputs_;  // of the dense rows
  std::vector<float*> outputs_;
};

}  // namespace fasteep
