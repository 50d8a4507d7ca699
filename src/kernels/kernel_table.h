#pragma once
// What one instruction set provides: one table per unit table_*.cc. Raw pointers only, because
// those units are compiled with their own flags and must share no inline function with others. All
// functions are pure and may run on any thread.
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/isa.h"

namespace fasteep {

inline constexpr int kRowBlock = 48;  // rows per call of `panel`; a multiple of every tile height
inline constexpr int kQueryRows = 8;  // rows per call of `attend`

// One KV head of consecutive rows of one sequence.
struct AttentionItem {
  const std::byte* const* blocks;
  size_t key_offset;  // of this head within a block, bytes
  size_t value_offset;
  int block_runs;  // runs of kAttentionRun positions per block
  int head_dim;
  int group;           // query heads per KV head
  int first_position;  // of row 0
  int num_rows;        // <= kQueryRows
  float scale;
  const float* q;  // row r, head g of the group: q + r * stride + g * head_dim
  float* out;      // likewise
  ptrdiff_t stride;
  float* scratch;         // attention_scratch_floats(group, head_dim)
  const float** queries;  // scratch too: [kQueryRows * group]
};

// Arrays are indexed by DType (float32, bfloat16).
struct KernelTable {
  // An input row as the tiles read it: rounded to the weights' type, padded to whole pairs.
  size_t (*prepared_bytes[2])(int inputs);
  void (*prepare[2])(const float* x, int n, std::byte* row);
  void (*prepare_native[2])(const std::byte* x, int n, std::byte* row);  // x already of the type

  // out[r, 0..32) = one panel times prepared row r; rows <= kRowBlock; out: [rows, kPanelWidth].
  void (*panel[2])(const std::byte* x, size_t stride_bytes, int rows, const std::byte* panel,
                   int inputs, float* out);

  void (*silu_mul)(float* gate, const float* up, int n);  // gate = silu(gate) * up; n % 16 == 0
  void (*add_row)(const float* y, float* x, int n);
  void (*round_row)(const float* x, int n, std::byte* bf16);
  void (*rms_norm_row)(const float* x, const float* weight, float eps, bool round_bf16, float* out,
                       int n);
  void (*rope_row)(float* x, int heads, int head_dim, const float* cos, const float* sin);
  void (*softmax_row)(const float* x, float* out, int n);
  void (*combine_row)(const float* weights, const float* const* outputs, int k, float* x, int n);
  void (*attend[2])(const AttentionItem& item);

  // For probes: multiply-adds done by `steps` rounds in registers.
  double (*multiply_add_burst[2])(int steps, float seed);
};

const KernelTable& kernel_table(Isa isa);

// Floats that AttentionItem::scratch points to: per query an accumulator row, 16 weights, and the
// running maximum and sum.
constexpr size_t attention_scratch_floats(int group, int head_dim) {
  return size_t{kQueryRows} * group * (head_dim + 18);
}

extern const KernelTable kPortableTable, kAvx2Table, kAvx512Table, kAvx512Bf16Table;

}  // namespace fasteep
