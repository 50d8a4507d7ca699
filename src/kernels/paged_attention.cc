// Layout of the KV blocks, and attention spread over rows and KV heads.
#include <algorithm>

#include "kernels/kernels_state.h"

namespace fasteep {

namespace {

// Within a layer's block: K of all heads, then V of all heads. Of one head: runs of 16 positions,
// K as [head_dim, 16], V as [16, head_dim].
struct KvLayout {
  explicit KvLayout(const KvShape& shape)
      : head_bytes(size_bytes(shape.dtype) * shape.block_tokens * shape.head_dim),
        values_bytes(head_bytes * shape.kv_heads) {
    CHECK(shape.block_tokens > 0 && shape.block_tokens % kAttentionRun == 0,
          "KV blocks of {} tokens: not a multiple of {}", shape.block_tokens, kAttentionRun);
  }
  size_t key_offset(int head) const { return head * head_bytes; }
  size_t value_offset(int head) const { return values_bytes + head * head_bytes; }
  size_t head_bytes, values_bytes;
};

template <class T>
void append_row(const KvShape& shape, const KvLayout& layout, std::byte* block, int offset,
                const float* k, const float* v) {
  const size_t run = size_t(offset / kAttentionRun) * kAttentionRun * shape.head_dim;
  const int lane = offset % kAttentionRun;
  for (int h = 0; h < shape.kv_heads; ++h) {
    T* keys = reinterpret_cast<T*>(block + layout.key_offset(h)) + run + lane;
    T* values = reinterpret_cast<T*>(block + layout.value_offset(h)) + run + lane * shape.head_dim;
    for (int d = 0; d < shape.head_dim; ++d) {
      keys[d * kAttentionRun] = T(k[h * shape.head_dim + d]);
      values[d] = T(v[h * shape.head_dim + d]);
    }
  }
}

void check_blocks(const KvShape& shape, const AttentionSequence& s) {
  const size_t end = static_cast<size_t>(s.first_position) + s.num_rows;
  CHECK(s.num_rows == 0 || s.blocks.size() * shape.block_tokens >= end,
        "{} KV blocks of {} tokens for {} positions", s.blocks.size(), shape.block_tokens, end);
}

}  // namespace

void Kernels::kv_append(const KvShape& shape, std::span<const AttentionSequence> sequences,
                        Span2<const float> k, Span2<const float> v) {
  const KvLayout layout(shape);
  CHECK(k.cols() == shape.kv_heads * shape.head_dim && v.cols() == k.cols(),
        "KV rows of {} and {} values for {} heads of {}", k.cols(), v.cols(), shape.kv_heads,
        shape.head_dim);
  for (const AttentionSequence& s : sequences) {
    check_blocks(shape, s);
    state_->spread(s.num_rows, 2.0 * static_cast<double>(k.cols()),
                   [&](int64_t begin, int64_t end, int) {
                     for (int64_t r = begin; r < end; ++r) {
                       const int position = s.first_position + static_cast<int>(r);
                       std::byte* block = s.blocks[position / shape.block_tokens];
                       const float* k_row = k.row(s.first_row + r).data();
                       const float* v_row = v.row(s.first_row + r).data();
                       const int offset = position % shape.block_tokens;
                       if (shape.dtype == DType::kBFloat16)
                         append_row<BFloat16>(shape, layout, block, offset, k_row, v_row);
                       else
                         append_row<float>(shape, layout, block, offset, k_row, v_row);
                     }
                   });
  }
}

void Kernels::attention(const KvShape& shape, int heads, float scale,
                        std::span<const AttentionSequence> sequences, Span2<const float> q,
                        Span2<float> out) {
  const KvLayout layout(shape);
  CHECK(heads % shape.kv_heads == 0 && q.cols() == heads * shape.head_dim &&
            out.cols() == q.cols() && out.rows() == q.rows() && q.stride() == out.stride(),
        "attention of {} heads over {} KV heads of {}: q [{}, {}], out [{}, {}]", heads,
        shape.kv_heads, shape.head_dim, q.rows(), q.cols(), out.rows(), out.cols());
  State& s = *state_;
  const int group = heads / shape.kv_heads;
  s.attention_blocks.clear();
  int64_t positions = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    check_blocks(shape, sequences[i]);
    const int rows = sequences[i].num_rows;
    if (rows == 0) continue;
    // Later rows see more: first, so that the last items are the small ones.
    for (int first = (rows - 1) / kQueryRows * kQueryRows; first >= 0; first -= kQueryRows) {
      const int count = std::min(kQueryRows, rows - first);
      s.attention_blocks.push_back({static_cast<int>(i), first, count});
      positions += int64_t{count} * (sequences[i].first_position + first + count);
    }
  }
  if (s.attention_blocks.empty()) return;
  const size_t floats = attention_scratch_floats(group, shape.head_dim);
  const size_t pointer_bytes = sizeof(float*) * kQueryRows * group;
  for (Scratch& scratch : s.per_thread) scratch.at_least(pointer_bytes + sizeof(float) * floats);

  const auto body = [&](int64_t begin, int64_t end, int thread) {
    std::byte* scratch = s.per_thread[thread].at_least(0);
    for (int64_t i = begin; i < end; ++i) {
      const AttentionBlock& block = s.attention_blocks[i / shape.kv_heads];
      const int head = static_cast<int>(i % shape.kv_heads);
      const AttentionSequence& sequence = sequences[block.sequence];
      const ptrdiff_t at = (sequence.first_row + block.first_row) * q.stride() +
                           ptrdiff_t{head} * group * shape.head_dim;
      s.table.attend[static_cast<size_t>(shape.dtype)](
          {.blocks = sequence.blocks.data(),
           .key_offset = layout.key_offset(head),
           .value_offset = layout.value_offset(head),
           .block_runs = shape.block_tokens / kAttentionRun,
           .head_dim = shape.head_dim,
           .group = group,
           .first_position = sequence.first_position + block.first_row,
           .num_rows = block.num_rows,
           .scale = scale,
           .q = q.data() + at,
           .out = out.data() + at,
           .stride = q.stride(),
           .scratch = reinterpret_cast<float*>(scratch + pointer_bytes),
           .queries = reinterpret_cast<const float**>(scratch)});
    }
  };
  const int64_t items = static_cast<int64_t>(s.attention_blocks.size()) * shape.kv_heads;
  const double cost = 0.05 * static_cast<double>(positions) * heads * shape.head_dim;
  if (cost < 5000)
    body(0, items, 0);
  else
    s.pool.parallel_for(items, 1, body);
}

}  // namespace fasteep
