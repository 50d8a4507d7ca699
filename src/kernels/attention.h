#pragma once
// Shapes of the paged KV cache as the attention kernel reads it.
#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace fasteep {

inline constexpr int kAttentionRun = 16;  // positions per online-softmax step; divides block_tokens

// One layer's part of a KV block: K then V of `block_tokens` positions for all KV heads. The inner
// order is the kernel's own (K transposed within a run), but a position's bytes never depend on
// its neighbours, so whole blocks may be copied between ranks.
struct KvShape {
  DType dtype = DType::kBFloat16;
  int kv_heads = 0;
  int head_dim = 0;
  int block_tokens = 16;
  size_t layer_block_bytes() const {
    return size_t{2} * kv_heads * head_dim * block_tokens * size_bytes(dtype);
  }
};

// Consecutive rows of a batch that belong to one sequence.
struct AttentionSequence {
  int first_row = 0;
  int num_rows = 0;
  int first_position = 0;  // of first_row
  std::span<std::byte* const>
      blocks;  // block i holds positions [i * block_tokens, ...) of this layer
};

}  // namespace fasteep
