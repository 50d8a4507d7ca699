#pragma once
// Made-up values for synth: bell-shaped, keyed by (seed, tensor, index), of a scale that keeps
// activations near one, routing balanced and logits spread.
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "model/weight_source.h"

namespace fasteep {

struct WeightScale {
  float mean = 0, deviation = 1;
};
WeightScale synth_scale(const ExpectedTensor& tensor);

// out[i] = value number first + i of tensor `stream`; `first` is a multiple of 4. Any thread.
void synth_values(uint64_t seed, uint64_t stream, uint64_t first, WeightScale scale,
                  std::span<BFloat16> out);

}  // namespace fasteep
