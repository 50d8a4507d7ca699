#pragma once
// The forward pass of one rank over `kernels` and `exchange`.
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "base/span2.h"
#include "exchange/exchange.h"
#include "kernels/kernels.h"
#include "memory/kv_blocks.h"
#include "model/model_config.h"
#include "model/replicated_weights.h"
#include "model/workspace.h"

namespace fasteep {

// One sequence's rows in a batch: its tokens stand at [first_row, first_row + num_rows) of
// `tokens`.
struct BatchSequence {
  int first_row = 0, num_rows = 0, first_position = 0;
  std::span<const BlockId> blocks;
};
struct Batch {
  std::span<const TokenId> tokens;
  std::span<const BatchSequence> sequences;
  std::span<const int> logit_rows;  // rows whose logits are wanted, increasing
};

// Threads: the rank's step thread. Nothing allocates after the first batch of the greatest size.
class Model {
 public:
  // Everything handed in by reference outlives the model. The workspace bounds a batch's rows; the
  // size of the KV blocks says how many tokens each holds.
  Model(const ModelConfig& config, const ReplicatedWeights& weights, Kernels& kernels,
        Exchange& exchange, KvBlocks& kv, Workspace workspace);
  ~Model();

  // logits: [logit_rows.size(), vocab_size]. Errors are the exchange's, and kInvalidInput when an
  // activation is not finite (a broken checkpoint).
  Result<void> forward(const Batch& batch, Span2<float> logits);

  // Tests look at the residual stream: called with (0, embeddings), (i + 1, after layer i), the
  // last one after the final norm; rows [num_rows, hidden].
  void tap_hidden(std::function<void(int index, Span2<const float> rows)> tap);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fasteep
