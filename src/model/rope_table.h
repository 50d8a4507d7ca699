#pragma once
// cos and sin of the rotary embedding, with YaRN's and linear scaling.
#include <vector>

#include "base/span2.h"
#include "model/model_config.h"

namespace fasteep {

// Rotation per position of each of the dim / 2 pairs, in radians.
std::vector<double> rope_frequencies(const RopeParams& rope, int dim);
// Multiplies cos and sin (YaRN's "mscale"); 1 without YaRN.
double rope_attention_factor(const RopeParams& rope);

// Threads: any, after construction.
class RopeTable {
 public:
  RopeTable(const RopeParams& rope, int head_dim);
  // Rows first_row, first_row + 1, ... of cos and sin [rows, head_dim / 2] for consecutive
  // positions.
  void fill(int first_position, Span2<float> cos, Span2<float> sin) const;

 private:
  std::vector<float> frequencies_;
  float attention_factor_;
};

}  // namespace fasteep
