#include "exchange/expert_batch.h"

namespace fasteep {

void ExpertBatch::start(LayerId layer, int num_experts) {
  layer_ = layer;
  slots_of_layer_.assign(num_experts, Held{});
  entries_.clear();
}

bool ExpertBatch::add(ExpertId expert, const std::byte* input, float* output) {
  Held& held = slots_of_layer_[expert.value];
  if (!held.is_looked_up) {
    held.weights = slots_.find({layer_, expert});
    held.is_looked_up = true;
  }
  if (!held.weights) return false;
  ++held.count;
  entries_.push_back({expert, input, output});
  return true;
}

// A stable counting sort into groups of one expert each.
void ExpertBatch::sort_by_expert() {
  groups_.clear();
  next_.assign(slots_of_layer_.size(), 0);
  int first = 0;
  for (size_t expert = 0; expert < slots_of_layer_.size(); ++expert) {
    const Held& held = slots_of_layer_[expert];
    next_[expert] = first;
    if (held.count > 0) groups_.push_back({held.weights, first, held.count});
    first += held.count;
  }
  inputs_.resize(entries_.size());
  outputs_.resize(entries_.size());
  for (const Entry& entry : entries_) {
    const int place = next_[entry.expert.value]++;
    inputs_[place] = entry.input;
    outputs_[place] = entry.output;
  }
}

void ExpertBatch::run() {
  if (is_empty()) return;
  sort_by_expert();
  kernels_.grouped_ffn(shape_, groups_, inputs_, outputs_);
}

}  // namespace fasteep
