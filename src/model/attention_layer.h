#pragma once
// The attention half of every layer: norm, q/k/v, RoPE, KV append, paged attention, output.
#include <vector>

#include "kernels/kernels.h"
#include "memory/kv_blocks.h"
#include "model/model.h"
#include "model/replicated_weights.h"
#include "model/rope_table.h"
#include "model/workspace.h"

namespace fasteep {

// Threads: the rank's step thread. Everything handed in outlives it.
class AttentionLayer {
 public:
  AttentionLayer(const ModelConfig& config, const ReplicatedWeights& weights, Kernels& kernels,
                 KvBlocks& kv, Workspace& workspace);

  // What all layers of a batch share: rotations of the rows and the sequences' shapes.
  void begin(const Batch& batch);
  // x[r, :] += attention of layer `index` over the rows of the batch.
  void run(int index, Span2<float> x);

 private:
  void point_at_blocks(int index);
  void norm_heads(Span2<float> heads, std::span<const float> weight);

  const ModelConfig& config_;
  const ReplicatedWeights& weights_;
  Kernels& kernels_;
  KvBlocks& kv_;
  Workspace& workspace_;
  RopeTable rope_;
  KvShape shape_;
  float scale_;
  std::span<const BatchSequence> batch_;
  std::vector<AttentionSequence> sequences_;
  std::vector<std::byte*> blocks_;  // of all sequences, one after another, in the current layer
};

}  // namespace fasteep
