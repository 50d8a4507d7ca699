#pragma once
// Operations on single rows. Included by the table_*.cc units only.
#include "kernels/gemm_impl.h"
#include "kernels/lanes.h"

namespace fasteep {
namespace {

// out[i] = operation(i-th lanes of the inputs), with the tail padded by zeros.
template <class Operation>
FASTEEP_INLINE void map1(const float* a, float* out, int n, Operation operation) {
  int i = 0;
  for (; i + kRegLanes <= n; i += kRegLanes) store(out + i, operation(load(a + i)));
  if (i < n) store_tail(out + i, n - i, operation(load_tail(a + i, n - i)));
}
template <class Operation>
FASTEEP_INLINE void map2(const float* a, const float* b, float* out, int n, Operation operation) {
  int i = 0;
  for (; i + kRegLanes <= n; i += kRegLanes) store(out + i, operation(load(a + i), load(b + i)));
  if (i < n)
    store_tail(out + i, n - i, operation(load_tail(a + i, n - i), load_tail(b + i, n - i)));
}

// Sixteen running values over a row, lane i taking elements i, i + 16, ...; then the fixed tree.
// `step(sum, values)`; a short tail leaves the other lanes as they were.
template <class Step, class Finish>
FASTEEP_INLINE float reduce(const float* x, int n, float start, Step step, Finish finish) {
  Reg lanes[kLaneRegs];
  for (Reg& reg : lanes) reg = set1(start);
  for (int i = 0; i < n; i += kLanes) {
    for (int v = 0; v < kLaneRegs; ++v) {
      const int left = n - i - v * kRegLanes;
      if (left <= 0) break;
      const float* p = x + i + v * kRegLanes;
      const Reg values = left >= kRegLanes ? load(p) : load_tail(p, left);
      lanes[v] = select_first(left, step(lanes[v], values), lanes[v]);
    }
  }
  return finish(lanes);
}

inline void silu_mul(float* gate, const float* up, int n) {
  for (int i = 0; i < n; i += kRegLanes)
    store(gate + i, mul(silu_of(load(gate + i)), load(up + i)));
}

inline void add_row(const float* y, float* x, int n) {
  map2(x, y, x, n, [](const Reg& a, const Reg& b) { return add(a, b); });
}

inline void round_row(const float* x, int n, std::byte* bf16) {
  round_to_bits(x, n, reinterpret_cast<uint16_t*>(bf16));
}

inline void rms_norm_row(const float* x, const float* weight, float eps, bool round, float* out,
                         int n) {
  const float squares = reduce(
      x, n, 0.0f, [](const Reg& sum, const Reg& v) { return fma(v, v, sum); },
      [](const Reg(&lanes)[kLaneRegs]) { return sum_of(lanes); });
  const Reg scale = set1(1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + eps));
  if (round) {
    map2(x, weight, out, n, [scale](const Reg& a, const Reg& w) {
      return round_bf16(mul(w, round_bf16(mul(a, scale))));
    });
  } else {
    map2(x, weight, out, n, [scale](const Reg& a, const Reg& w) { return mul(w, mul(a, scale)); });
  }
}

inline void rope_row(float* x, int heads, int head_dim, const float* cos, const float* sin) {
  const int half = head_dim / 2;
  for (int h = 0; h < heads; ++h) {
    float* a = x + h * head_dim;
    float* b = a + half;
    for (int i = 0; i < half; i += kRegLanes) {
      const int n = half - i;
      const bool whole = n >= kRegLanes;
      const Reg c = whole ? load(cos + i) : load_tail(cos + i, n);
      const Reg s = whole ? load(sin + i) : load_tail(sin + i, n);
      const Reg first = whole ? load(a + i) : load_tail(a + i, n);
      const Reg second = whole ? load(b + i) : load_tail(b + i, n);
      const Reg new_first = sub(mul(first, c), mul(second, s));
      const Reg new_second = add(mul(second, c), mul(first, s));
      store_tail(a + i, whole ? kRegLanes : n, new_first);
      store_tail(b + i, whole ? kRegLanes : n, new_second);
    }
  }
}

inline void softmax_row(const float* x, float* out, int n) {
  const float largest = reduce(
      x, n, -__builtin_inff(), [](const Reg& m, const Reg& v) { return max_of(m, v); },
      [](const Reg(&lanes)[kLaneRegs]) { return largest_of(lanes); });
  const Reg top = set1(largest);
  map1(x, out, n, [top](const Reg& a) { return exp_of(sub(a, top)); });
  const float sum = reduce(
      out, n, 0.0f, [](const Reg& s, const Reg& v) { return add(s, v); },
      [](const Reg(&lanes)[kLaneRegs]) { return sum_of(lanes); });
  const Reg total = set1(sum);
  map1(out, out, n, [total](const Reg& a) { return div(a, total); });
}

inline void combine_row(const float* weights, const float* const* outputs, int k, float* x, int n) {
  int i = 0;
  for (; i + kRegLanes <= n; i += kRegLanes) {
    Reg sum = set1(0.0f);
    for (int j = 0; j < k; ++j) sum = fma(set1(weights[j]), load(outputs[j] + i), sum);
    store(x + i, add(load(x + i), sum));
  }
  for (; i < n; ++i) {
    float sum = 0;
    for (int j = 0; j < k; ++j) sum = __builtin_fmaf(weights[j], outputs[j][i], sum);
    x[i] += sum;
  }
}

}  // namespace
}  // namespace fasteep
