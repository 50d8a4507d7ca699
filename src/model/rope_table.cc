#include "model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fasteep {
namespace {

// The pair that turns `rotations` times within the original context.
// Source: Peng et al., "YaRN: Efficient Context Window Extension" (2023).
double correction_dim(const RopeParams& rope, int dim, double rotations) {
  return dim * std::log(rope.original_max_positions / (2 * std::numbers::pi * rotations)) /
         (2 * std::log(rope.theta));
}

struct Ramp {
  double low, high;
};

Ramp yarn_ramp(const RopeParams& rope, int dim) {
  double low = correction_dim(rope, dim, rope.beta_fast);
  double high = correction_dim(rope, dim, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;
  return {low, high};
}

// 1 for factors that do not stretch.
double magnitude(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

}  // namespace

std::vector<double> rope_frequencies(const RopeParams& rope, int dim) {
  std::vector<double> frequencies(dim / 2);
  for (int i = 0; i < dim / 2; ++i) frequencies[i] = std::pow(rope.theta, -2.0 * i / dim);
  if (rope.type == RopeType::kLinear)
    for (double& frequency : frequencies) frequency /= rope.factor;
  if (rope.type != RopeType::kYarn) return frequencies;
  const Ramp ramp = yarn_ramp(rope, dim);
  for (int i = 0; i < dim / 2; ++i) {
    const double share = std::clamp((i - ramp.low) / (ramp.high - ramp.low), 0.0, 1.0);
    frequencies[i] *= 1 - share + share / rope.factor;
  }
  return frequencies;
}

double rope_attention_factor(const RopeParams& rope) {
  if (rope.type != RopeType::kYarn) return 1.0;
  if (rope.attention_factor) return *rope.attention_factor;
  const double mscale = rope.mscale.value_or(0), all_dim = rope.mscale_all_dim.value_or(0);
  if (mscale != 0 && all_dim != 0)
    return magnitude(rope.factor, mscale) / magnitude(rope.factor, all_dim);
  return magnitude(rope.factor, 1);
}

RopeTable::RopeTable(const RopeParams& rope, int head_dim)
    : attention_factor_(static_cast<float>(rope_attention_factor(rope))) {
  for (const double frequency : rope_frequencies(rope, head_dim))
    frequencies_.push_back(static_cast<float>(frequency));
}

void RopeTable::fill(int first_position, Span2<float> cos, Span2<float> sin) const {
  for (int64_t r = 0; r < cos.rows(); ++r) {
    const float position = static_cast<float>(first_position + r);
    const std::span<float> cos_row = cos.row(r), sin_row = sin.row(r);
    for (size_t i = 0; i < frequencies_.size(); ++i) {
      const float angle = position * frequencies_[i];  // in float32, as the reference has it
      cos_row[i] = std::cos(angle) * attention_factor_;
      sin_row[i] = std::sin(angle) * attention_factor_;
    }
  }
}

}  // namespace fasteep
