#pragma once
// Row-invariant compute on spans. The value of a row never depends on the other rows, on tiling, on
// the thread count or on where it is computed:
//   * every output of a matrix product accumulates over k in increasing order in one float32 chain
//     (fused multiply-add; for kAvx512Bf16 one chain of vdpbf16ps over pairs);
//   * reductions over a row run over 16 virtual lanes in a fixed tree, whatever the vector width;
//   * threads split outputs and rows, never a sum.
// Matrix inputs are rounded to the weights' type first (bfloat16 for bfloat16 weights), outputs are
// float32. Everything else is float32. Plain twins in double: kernels/reference.h.
// Threads: one Kernels per rank, used by its step thread; work is spread over the ThreadPool.
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/span2.h"
#include "kernels/attention.h"
#include "kernels/isa.h"
#include "kernels/packed_matrix.h"
#include "kernels/thread_pool.h"

namespace fasteep {

// Sizes of one expert (or dense) SwiGLU block: down(silu(gate(x)) * up(x)).
struct FfnShape {
  DType dtype = DType::kBFloat16;  // of weights and of input rows
  int hidden = 0;
  int intermediate = 0;
};

// One expert's packed bytes: `gate_up` then `down`, in one block of ffn_size_bytes(shape).
size_t ffn_size_bytes(const FfnShape& shape);
// Packs one expert into `destination` [ffn_size_bytes]. Sources row-major: gate and up
// [intermediate, hidden], down [hidden, intermediate].
void pack_ffn(const FfnShape& shape, DType source_dtype, const std::byte* gate, const std::byte* up,
              const std::byte* down, std::byte* destination);

// Entries [first_entry, first_entry + num_entries) of a call go through one expert.
struct FfnGroup {
  const std::byte* weights = nullptr;  // ffn_size_bytes(shape)
  int first_entry = 0;
  int num_entries = 0;
};

class Kernels {
 public:
  Kernels(Isa isa, ThreadPool& pool);
  ~Kernels();
  Isa isa() const;
  ThreadPool& pool();

  // y[r, o] = sum_k x[r, k] * w[o, k] (+ bias[o] if given, added last). x: [rows, inputs].
  void gemm(const PackedMatrix& w, Span2<const float> x, std::span<const float> bias,
            Span2<float> y);

  // For each group and each of its entries e: outputs[e][0..hidden) = ffn(inputs[e]). inputs[e]
  // points to [hidden] values of shape.dtype, outputs[e] to [hidden] floats, neither needs
  // alignment beyond its element. No two entries share an output. Whole experts go to one thread
  // while there are enough of them; otherwise outputs are split.
  void grouped_ffn(const FfnShape& shape, std::span<const FfnGroup> groups,
                   std::span<const std::byte* const> inputs, std::span<float* const> outputs);

  // out = weight * (x * rsqrt(mean(x^2) + eps)), rows independent. x, out: [rows, n]; may alias.
  // With round_to == kBFloat16 the normalised value is rounded to bfloat16 before the weight, and
  // the product again (the reference's order).
  void rms_norm(Span2<const float> x, std::span<const float> weight, float eps, DType round_to,
                Span2<float> out);

  // Rotates q or k in place, half-rotation layout: x: [rows, heads * head_dim]; cos, sin:
  // [rows, head_dim / 2].
  void rope(Span2<float> x, int head_dim, Span2<const float> cos, Span2<const float> sin);

  // Rounds rows to `dtype` for the wire: destination [rows, cols] of dtype, contiguous.
  void round_rows(Span2<const float> x, DType dtype, std::byte* destination);

  // x[r, i] += y[r, i].
  void add(Span2<const float> y, Span2<float> x);

  // Top-k routing: softmax over all experts in float32, the k largest (ties: lowest index), weights
  // divided by their sum if `normalise`. logits: [rows, experts]; ids, weights: [rows, k], in
  // decreasing order of probability. Error kInvalidInput if a logit is not finite (names the row).
  Result<void> route_topk(Span2<const float> logits, int k, bool normalise, Span2<int32_t> ids,
                          Span2<float> weights);

  // x[r, :] += sum_j weights[r, j] * outputs[r * k + j][:], j = 0..k-1 in this order.
  void combine(Span2<const float> weights, std::span<const float* const> outputs, Span2<float> x);

  // Writes K (after norm and RoPE) and V rows into their blocks. k, v: [rows, kv_heads * head_dim];
  // row r of sequence s has position s.first_position + (r - s.first_row).
  void kv_append(const KvShape& shape, std::span<const AttentionSequence> sequences,
                 Span2<const float> k, Span2<const float> v);

  // Causal grouped-query attention over the blocks. q, out: [rows, heads * head_dim]. A row at
  // position p sees positions 0..p, in runs of kAttentionRun positions in order with an online
  // softmax, so that chunked prefill, decode and recompute give the same bits.
  void attention(const KvShape& shape, int heads, float scale,
                 std::span<const AttentionSequence> sequences, Span2<const float> q,
                 Span2<float> out);

 private:
  struct State;
  struct FfnCall;
  std::unique_ptr<State> state_;
};

}  // namespace fasteep
