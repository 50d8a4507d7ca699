#pragma once
// Register tiles of the matrix product. Included by the table_*.cc units only.
// Each output is one chain of multiply-adds over k in order, whatever the tile: tiles only choose
// how many chains run side by side.
#include "kernels/lanes.h"
#include "kernels/packed_matrix.h"

namespace fasteep {
namespace {

#if defined(__AVX512F__)
constexpr int kTileRows = 12;  // 24 of 32 registers accumulate
constexpr int kFullPanelRows = 12;
#elif defined(__AVX2__)
constexpr int kTileRows = 5;  // 5 rows x half a panel: with 6 GCC spills some of the 16 registers
constexpr int kFullPanelRows = 2;
#else
constexpr int kTileRows = 3;
constexpr int kFullPanelRows = 3;
#endif
constexpr int kPanelRegs = kPanelWidth / kRegLanes;

// float32 weights: a step is one k.
struct Float32Step {
  using Input = float;
  using Weight = float;
  static constexpr int kInputs = 1;
  static constexpr int kWeights = kPanelWidth;
  static int steps(int inputs) { return inputs; }

  static constexpr int kMultiplyAddsPerLane = 1;  // of one instruction
  static FASTEEP_INLINE Reg multiply_add(Reg a, Reg sum) { return fma(a, a, sum); }

  template <int kRows, int kRegs>
  static FASTEEP_INLINE void run(Reg (&sums)[kRows][kRegs], const float* x, ptrdiff_t stride,
                                 const float* w) {
    Reg weights[kRegs];
#pragma GCC unroll 4
    for (int v = 0; v < kRegs; ++v) weights[v] = load(w + v * kRegLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const Reg value = set1(x[r * stride]);
#pragma GCC unroll 4
      for (int v = 0; v < kRegs; ++v) sums[r][v] = fma(value, weights[v], sums[r][v]);
    }
  }
};

#if defined(__AVX512BF16__)

// bfloat16 pairs: a step is two k in one instruction.
struct BFloat16Step {
  using Input = uint32_t;  // two bfloat16
  using Weight = uint16_t;
  static constexpr int kInputs = 1;
  static constexpr int kWeights = 2 * kPanelWidth;
  static int steps(int inputs) { return (inputs + 1) / 2; }

  static constexpr int kMultiplyAddsPerLane = 2;  // of one instruction
  static FASTEEP_INLINE Reg multiply_add(Reg a, Reg sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)a);
  }

  template <int kRows, int kRegs>
  static FASTEEP_INLINE void run(Reg (&sums)[kRows][kRegs], const uint32_t* x, ptrdiff_t stride,
                                 const uint16_t* w) {
    __m512bh weights[kRegs];
#pragma GCC unroll 4
    for (int v = 0; v < kRegs; ++v)
      weights[v] = (__m512bh)_mm512_loadu_si512(w + 2 * v * kRegLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512bh value = (__m512bh)_mm512_set1_epi32(static_cast<int>(x[r * stride]));
#pragma GCC unroll 4
      for (int v = 0; v < kRegs; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], value, weights[v]);
    }
  }
};

#else

// bfloat16 pairs widened to float32: a step is two k, the even one first.
struct BFloat16Step {
  using Input = float;  // rounded to bfloat16
  using Weight = uint16_t;
  static constexpr int kInputs = 2;
  static constexpr int kWeights = 2 * kPanelWidth;
  static int steps(int inputs) { return (inputs + 1) / 2; }

  static constexpr int kMultiplyAddsPerLane = 1;  // of one instruction
  static FASTEEP_INLINE Reg multiply_add(Reg a, Reg sum) { return fma(a, a, sum); }

  template <int kRows, int kRegs>
  static FASTEEP_INLINE void run(Reg (&sums)[kRows][kRegs], const float* x, ptrdiff_t stride,
                                 const uint16_t* w) {
    Reg weights[kRegs];
#pragma GCC unroll 4
    for (int v = 0; v < kRegs; ++v) weights[v] = widen_even(w + 2 * v * kRegLanes);
    add_products<kRows, kRegs>(sums, x, stride, weights);
#pragma GCC unroll 4
    for (int v = 0; v < kRegs; ++v) weights[v] = widen_odd(w + 2 * v * kRegLanes);
    add_products<kRows, kRegs>(sums, x + 1, stride, weights);
  }

 private:
  template <int kRows, int kRegs>
  static FASTEEP_INLINE void add_products(Reg (&sums)[kRows][kRegs], const float* x,
                                          ptrdiff_t stride, const Reg (&weights)[kRegs]) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const Reg value = set1(x[r * stride]);
#pragma GCC unroll 4
      for (int v = 0; v < kRegs; ++v) sums[r][v] = fma(value, weights[v], sums[r][v]);
    }
  }
};

#endif

constexpr size_t kStepBytes = 128;  // of a panel, for either type
constexpr size_t kCacheLine = 64;

// So few rows only stream the weights: the memory is the bound, and of the distances tried (none,
// 2 KiB, 8 KiB, a panel) the short one kept it busiest.
constexpr int kStreamingRows = 2;
constexpr size_t kStreamingAhead = 2048;

// out[r, 0..kRegs * kRegLanes) for kRows rows; w: the panel, or its second half. `ahead`: weights
// that will be read next, fetched into the second-level cache at the pace of this tile: products of
// more than two rows would otherwise take turns with the memory instead of running beside it.
template <class Step, int kRows, int kRegs>
void tile(const typename Step::Input* x, ptrdiff_t stride, const typename Step::Weight* w,
          int steps, const std::byte* ahead, float* out) {
  constexpr size_t kBytes = kStepBytes * kRegs / kPanelRegs;
  Reg sums[kRows][kRegs];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kRegs; ++v) sums[r][v] = set1(0.0f);
  }
  for (int s = 0; s < steps; ++s) {
    for (size_t line = 0; line < kBytes; line += kCacheLine) __builtin_prefetch(ahead + line, 0, 2);
    Step::template run<kRows, kRegs>(sums, x, stride, w);
    x += Step::kInputs;
    w += Step::kWeights;
    ahead += kBytes;
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kRegs; ++v) store(out + r * kPanelWidth + v * kRegLanes, sums[r][v]);
  }
}

// The tile of exactly `rows` <= kRows rows.
template <class Step, int kRows>
void tile_of(int rows, const typename Step::Input* x, ptrdiff_t stride,
             const typename Step::Weight* w, int steps, float* out) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return tile_of<Step, kRows - 1>(rows, x, stride, w, steps, out);
  }
  const auto* here = reinterpret_cast<const std::byte*>(w);
  const std::byte* next_panel = here + kStepBytes * steps;
  if constexpr (kRows <= kFullPanelRows) {
    const std::byte* ahead = kRows <= kStreamingRows ? here + kStreamingAhead : next_panel;
    tile<Step, kRows, kPanelRegs>(x, stride, w, steps, ahead, out);
  } else {
    constexpr int kHalf = kPanelRegs / 2;
    tile<Step, kRows, kHalf>(x, stride, w, steps, next_panel, out);
    tile<Step, kRows, kHalf>(x, stride, w + Step::kWeights / 2, steps,
                             next_panel + kStepBytes / 2 * steps, out + kPanelWidth / 2);
  }
}

// Rows in tiles of nearly equal height.
template <class Step>
void panel_rows(const std::byte* x_bytes, size_t stride_bytes, int rows, const std::byte* panel,
                int inputs, float* out) {
  using Input = typename Step::Input;
  const auto* x = reinterpret_cast<const Input*>(x_bytes);
  const auto* w = reinterpret_cast<const typename Step::Weight*>(panel);
  const ptrdiff_t stride = static_cast<ptrdiff_t>(stride_bytes / sizeof(Input));
  const int tiles = (rows + kTileRows - 1) / kTileRows;
  for (int t = 0, row = 0; t < tiles; ++t) {
    const int height = rows / tiles + (t < rows % tiles ? 1 : 0);
    tile_of<Step, kTileRows>(height, x + row * stride, stride, w, Step::steps(inputs),
                             out + row * kPanelWidth);
    row += height;
  }
}

// Multiply-adds from registers alone, in more chains than the pipes have stages: the best that they
// can do. The chains start apart, or the compiler would merge them and the rate would be a fiction.
// Returns the number of multiply-adds.
template <class Step>
double multiply_add_burst(int steps, float seed) {
  constexpr int kChains = 12;
  const Reg factor = set1(seed);
  Reg sums[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sums[i] = set1(seed * static_cast<float>(i + 1));
  for (int s = 0; s < steps; ++s) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = Step::multiply_add(factor, sums[i]);
  }
  float out[kRegLanes];
  for (int i = 1; i < kChains; ++i) sums[0] = add(sums[0], sums[i]);
  store(out, sums[0]);
  asm volatile("" : : "m"(out));
  return double{kRegLanes} * kChains * steps * Step::kMultiplyAddsPerLane;
}

template <class Step>
size_t prepared_bytes(int inputs) {
  return size_t{sizeof(typename Step::Input)} * Step::kInputs * Step::steps(inputs);
}

// --- Input rows
// -----------------------------------------------------------------------------------

inline void prepare_float32(const float* x, int n, std::byte* row) {
  __builtin_memcpy(row, x, sizeof(float) * n);
}
inline void prepare_native_float32(const std::byte* x, int n, std::byte* row) {
  __builtin_memcpy(row, x, sizeof(float) * n);
}

// The last n % kRegLanes values of a row, padded with zeros.
FASTEEP_INLINE Reg load_tail(const float* x, int n) {
  float padded[kRegLanes] = {};
  for (int i = 0; i < n; ++i) padded[i] = x[i];
  return load(padded);
}
FASTEEP_INLINE void store_tail(float* x, int n, Reg a) {
  float padded[kRegLanes];
  store(padded, a);
  for (int i = 0; i < n; ++i) x[i] = padded[i];
}

// bfloat16 bits of n floats.
inline void round_to_bits(const float* x, int n, uint16_t* out) {
  int i = 0;
  for (; i + kRegLanes <= n; i += kRegLanes) store_bf16(out + i, load(x + i));
  if (i == n) return;
  uint16_t tail[kRegLanes];
  store_bf16(tail, load_tail(x + i, n - i));
  for (int j = i; j < n; ++j) out[j] = tail[j - i];
}

#if defined(__AVX512BF16__)

inline void prepare_bfloat16(const float* x, int n, std::byte* row) {
  auto* out = reinterpret_cast<uint16_t*>(row);
  round_to_bits(x, n, out);
  if (n % 2 != 0) out[n] = 0;
}
inline void prepare_native_bfloat16(const std::byte* x, int n, std::byte* row) {
  __builtin_memcpy(row, x, sizeof(uint16_t) * n);
  if (n % 2 != 0) reinterpret_cast<uint16_t*>(row)[n] = 0;
}

#else

inline void prepare_bfloat16(const float* x, int n, std::byte* row) {
  auto* out = reinterpret_cast<float*>(row);
  int i = 0;
  for (; i + kRegLanes <= n; i += kRegLanes) store(out + i, round_bf16(load(x + i)));
  if (i < n) store_tail(out + i, n - i, round_bf16(load_tail(x + i, n - i)));
  if (n % 2 != 0) out[n] = 0.0f;
}
inline void prepare_native_bfloat16(const std::byte* x, int n, std::byte* row) {
  const auto* in = reinterpret_cast<const uint16_t*>(x);
  auto* out = reinterpret_cast<float*>(row);
  int i = 0;
  for (; i + kRegLanes <= n; i += kRegLanes) store(out + i, load_bf16(in + i));
  for (; i < n; ++i) out[i] = __builtin_bit_cast(float, uint32_t{in[i]} << 16);
  if (n % 2 != 0) out[n] = 0.0f;
}

#endif

}  // namespace
}  // namespace fasteep
