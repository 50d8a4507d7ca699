#pragma once
// Entries of one layer from any number of callers, computed together: each expert's weights are
// read once.
#include <vector>

#include "exchange/exchange.h"

namespace fasteep {

// Threads: the rank's step thread. Nothing allocates once the greatest batch has been seen.
class ExpertBatch {
 public:
  ExpertBatch(const FfnShape& shape, const ExpertSlots& slots, Kernels& kernels)
      : shape_(shape), slots_(slots), kernels_(kernels) {}

  void start(LayerId layer, int num_experts);
  // input: [hidden] of the model's type, output: [hidden] floats; both stay until run() is done.
  // False if the expert is not held here: refuse.
  bool add(ExpertId expert, const std::byte* input, float* output);
  bool is_empty() const { return entries_.empty(); }
  void run();

  LayerId layer() const { return layer_; }
  int num_experts() const { return static_cast<int>(slots_of_layer_.size()); }

 private:
  struct Entry {
    ExpertId expert;
    const std::byte* input;
    float* output;
  };
  struct Held {
    const std::byte* weights = nullptr;
    bool is_looked_up = false;
    int count = 0;
  };
  void sort_by_expert();

  FfnShape shape_;
  const ExpertSlots& slots_;
  Kernels& kernels_;
  LayerId layer_;
  std::vector<Held> slots_of_layer_;  // by expert
  std::vector<Entry> entries_;
  std::vector<FfnGroup> groups_;
  std::vector<int> next_;                 // by expert: scratch of the sort
  std::vector<const std::byte*> inputs_;  // by expert
  std::vector<float*> outputs_;
};

}  // namespace fasteep
