#pragma once
// 16 virtual lanes over the registers that the including unit is compiled for. Every operation here
// gives the same bits on every set, so that kernels written once over it do too.
// Everything is in an unnamed namespace and uses no library templates: a function shared by name
// with a unit compiled for another instruction set could be merged with it by the linker.
#include <cstddef>
#include <cstdint>

// GCC 12 warns falsely about its own AVX-512 headers, wherever they are inlined.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define FASTEEP_INLINE inline __attribute__((always_inline))

namespace fasteep {
namespace {

constexpr int kLanes = 16;
constexpr float kRoundingMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
constexpr int32_t kRoundingMagicBits = 0x4B400000;

#if defined(__AVX512F__)

constexpr int kRegLanes = 16;
using Reg = __m512;

FASTEEP_INLINE Reg set1(float x) { return _mm512_set1_ps(x); }
FASTEEP_INLINE Reg load(const float* p) { return _mm512_loadu_ps(p); }
FASTEEP_INLINE void store(float* p, Reg a) { _mm512_storeu_ps(p, a); }
FASTEEP_INLINE Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
FASTEEP_INLINE Reg sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
FASTEEP_INLINE Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
FASTEEP_INLINE Reg div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
FASTEEP_INLINE Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
FASTEEP_INLINE Reg max_of(Reg a, Reg b) { return _mm512_max_ps(a, b); }
FASTEEP_INLINE Reg min_of(Reg a, Reg b) { return _mm512_min_ps(a, b); }

FASTEEP_INLINE Reg select_first(int n, Reg a, Reg b) {
  const __mmask16 mask = static_cast<__mmask16>(n >= kRegLanes ? 0xffff
                                                : n <= 0       ? 0
                                                               : (1 << n) - 1);
  return _mm512_mask_blend_ps(mask, b, a);
}

FASTEEP_INLINE void power_of_two_halves(Reg rounded, Reg* first, Reg* second) {
  const __m512i n =
      _mm512_sub_epi32(_mm512_castps_si512(rounded), _mm512_set1_epi32(kRoundingMagicBits));
  const __m512i half = _mm512_srai_epi32(n, 1);
  const __m512i rest = _mm512_sub_epi32(n, half);
  const __m512i bias = _mm512_set1_epi32(127);
  *first = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(half, bias), 23));
  *second = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(rest, bias), 23));
}

FASTEEP_INLINE Reg widen_even(const uint16_t* pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(pairs), 16));
}
FASTEEP_INLINE Reg widen_odd(const uint16_t* pairs) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(pairs), mask));
}
FASTEEP_INLINE Reg load_bf16(const uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
FASTEEP_INLINE __m512i bf16_bits(Reg a) {
  const __m512i u = _mm512_castps_si512(a);
  const __m512i top = _mm512_srli_epi32(u, 16);
  const __m512i lsb = _mm512_and_si512(top, _mm512_set1_epi32(1));
  const __m512i even = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), lsb);
  const __m512i nan = _mm512_or_si512(top, _mm512_set1_epi32(0x40));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  return _mm512_mask_blend_epi32(is_nan, _mm512_srli_epi32(even, 16), nan);
}
FASTEEP_INLINE Reg round_bf16(Reg a) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(bf16_bits(a), 16));
}
FASTEEP_INLINE void store_bf16(uint16_t* p, Reg a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(bf16_bits(a)));
}

#elif defined(__AVX2__)

constexpr int kRegLanes = 8;
using Reg = __m256;

FASTEEP_INLINE Reg set1(float x) { return _mm256_set1_ps(x); }
FASTEEP_INLINE Reg load(const float* p) { return _mm256_loadu_ps(p); }
FASTEEP_INLINE void store(float* p, Reg a) { _mm256_storeu_ps(p, a); }
FASTEEP_INLINE Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
FASTEEP_INLINE Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
FASTEEP_INLINE Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
FASTEEP_INLINE Reg div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
FASTEEP_INLINE Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
FASTEEP_INLINE Reg max_of(Reg a, Reg b) { return _mm256_max_ps(a, b); }
FASTEEP_INLINE Reg min_of(Reg a, Reg b) { return _mm256_min_ps(a, b); }

FASTEEP_INLINE Reg select_first(int n, Reg a, Reg b) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
  return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(mask));
}

FASTEEP_INLINE void power_of_two_halves(Reg rounded, Reg* first, Reg* second) {
  const __m256i n =
      _mm256_sub_epi32(_mm256_castps_si256(rounded), _mm256_set1_epi32(kRoundingMagicBits));
  const __m256i half = _mm256_srai_epi32(n, 1);
  const __m256i rest = _mm256_sub_epi32(n, half);
  const __m256i bias = _mm256_set1_epi32(127);
  *first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  *second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
}

FASTEEP_INLINE __m256i load_bits(const uint16_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
FASTEEP_INLINE Reg widen_even(const uint16_t* pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(load_bits(pairs), 16));
}
FASTEEP_INLINE Reg widen_odd(const uint16_t* pairs) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return _mm256_castsi256_ps(_mm256_and_si256(load_bits(pairs), mask));
}
FASTEEP_INLINE Reg load_bf16(const uint16_t* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
FASTEEP_INLINE __m256i bf16_bits(Reg a) {
  const __m256i u = _mm256_castps_si256(a);
  const __m256i top = _mm256_srli_epi32(u, 16);
  const __m256i lsb = _mm256_and_si256(top, _mm256_set1_epi32(1));
  const __m256i even = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), lsb);
  const __m256i nan = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(_mm256_srli_epi32(even, 16), nan, is_nan);
}
FASTEEP_INLINE Reg round_bf16(Reg a) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(bf16_bits(a), 16));
}
FASTEEP_INLINE void store_bf16(uint16_t* p, Reg a) {
  const __m256i bits = bf16_bits(a);
  const __m128i packed =
      _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
}

#else

constexpr int kRegLanes = 8;
struct Reg {
  float v[kRegLanes];
};

template <class Operation>
FASTEEP_INLINE Reg each_lane(Operation operation) {
  Reg result;
  for (int i = 0; i < kRegLanes; ++i) result.v[i] = operation(i);
  return result;
}
FASTEEP_INLINE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
FASTEEP_INLINE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

FASTEEP_INLINE Reg set1(float x) {
  return each_lane([&](int) { return x; });
}
FASTEEP_INLINE Reg load(const float* p) {
  return each_lane([&](int i) { return p[i]; });
}
FASTEEP_INLINE void store(float* p, const Reg& a) {
  for (int i = 0; i < kRegLanes; ++i) p[i] = a.v[i];
}
FASTEEP_INLINE Reg add(const Reg& a, const Reg& b) {
  return each_lane([&](int i) { return a.v[i] + b.v[i]; });
}
FASTEEP_INLINE Reg sub(const Reg& a, const Reg& b) {
  return each_lane([&](int i) { return a.v[i] - b.v[i]; });
}
FASTEEP_INLINE Reg mul(const Reg& a, const Reg& b) {
  return each_lane([&](int i) { return a.v[i] * b.v[i]; });
}
FASTEEP_INLINE Reg div(const Reg& a, const Reg& b) {
  return each_lane([&](int i) { return a.v[i] / b.v[i]; });
}
FASTEEP_INLINE Reg fma(const Reg& a, const Reg& b, const Reg& c) {
  return each_lane([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
// As maxps and minps: the second operand if either is NaN.
FASTEEP_INLINE Reg max_of(const Reg& a, const Reg& b) {
  return each_lane([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
FASTEEP_INLINE Reg min_of(const Reg& a, const Reg& b) {
  return each_lane([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
// Lanes below n from a, the others from b.
FASTEEP_INLINE Reg select_first(int n, const Reg& a, const Reg& b) {
  return each_lane([&](int i) { return i < n ? a.v[i] : b.v[i]; });
}

// `rounded` = n + kRoundingMagic; first * second = 2^n, each a normal number for |n| < 250.
FASTEEP_INLINE void power_of_two_halves(const Reg& rounded, Reg* first, Reg* second) {
  for (int i = 0; i < kRegLanes; ++i) {
    const uint32_t n = bits_of(rounded.v[i]) - static_cast<uint32_t>(kRoundingMagicBits);
    const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(n) >> 1);
    first->v[i] = float_of((half + 127u) << 23);
    second->v[i] = float_of((n - half + 127u) << 23);
  }
}

// Of interleaved bfloat16 pairs the even and the odd members.
FASTEEP_INLINE Reg widen_even(const uint16_t* pairs) {
  return each_lane([&](int i) { return float_of(uint32_t{pairs[2 * i]} << 16); });
}
FASTEEP_INLINE Reg widen_odd(const uint16_t* pairs) {
  return each_lane([&](int i) { return float_of(uint32_t{pairs[2 * i + 1]} << 16); });
}
FASTEEP_INLINE Reg load_bf16(const uint16_t* p) {
  return each_lane([&](int i) { return float_of(uint32_t{p[i]} << 16); });
}
FASTEEP_INLINE uint32_t bf16_bits(float x) {
  const uint32_t u = bits_of(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (u >> 16) | 0x40u;
  return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
FASTEEP_INLINE Reg round_bf16(const Reg& a) {
  return each_lane([&](int i) { return float_of(bf16_bits(a.v[i]) << 16); });
}
FASTEEP_INLINE void store_bf16(uint16_t* p, const Reg& a) {
  for (int i = 0; i < kRegLanes; ++i) p[i] = static_cast<uint16_t>(bf16_bits(a.v[i]));
}

#endif

constexpr int kLaneRegs = kLanes / kRegLanes;

// exp of every lane: 0 below about -104, infinity above 88.73, NaN for NaN, 1 exactly for 0.
FASTEEP_INLINE Reg exp_of(Reg x) {
  x = min_of(set1(89.0f), max_of(set1(-105.0f), x));  // this operand order lets NaN through
  const Reg rounded = fma(x, set1(1.44269504088896f), set1(kRoundingMagic));
  const Reg n = sub(rounded, set1(kRoundingMagic));
  Reg r = fma(n, set1(-0.693359375f), x);        // ln 2 in two parts: n times the first is exact
  r = fma(n, set1(2.12194440054690583e-4f), r);  // |r| <= ln(2) / 2
  Reg sum = set1(1.0f / 5040);                   // Taylor: the rest is below 6e-9 of the sum
  sum = fma(sum, r, set1(1.0f / 720));
  sum = fma(sum, r, set1(1.0f / 120));
  sum = fma(sum, r, set1(1.0f / 24));
  sum = fma(sum, r, set1(1.0f / 6));
  sum = fma(sum, r, set1(0.5f));
  sum = fma(sum, r, set1(1.0f));
  sum = fma(sum, r, set1(1.0f));
  Reg first, second;  // two factors, so that denormal results and overflow round as they should
  power_of_two_halves(rounded, &first, &second);
  return mul(mul(sum, first), second);
}

FASTEEP_INLINE Reg silu_of(Reg x) { return div(x, add(set1(1.0f), exp_of(sub(set1(0.0f), x)))); }

// Sum and maximum over 16 lanes in a fixed tree: i with i + 8, then + 4, + 2, + 1.
#if defined(__AVX2__)

FASTEEP_INLINE __m128 add4(__m128 a, __m128 b) { return _mm_add_ps(a, b); }
FASTEEP_INLINE __m128 max4(__m128 a, __m128 b) { return _mm_max_ps(a, b); }

template <class Combine>
FASTEEP_INLINE float tree8(__m256 a, Combine combine) {
  __m128 b = combine(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = combine(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(combine(b, _mm_shuffle_ps(b, b, 1)));
}
#if defined(__AVX512F__)
FASTEEP_INLINE __m256 upper(Reg a) { return _mm512_extractf32x8_ps(a, 1); }
FASTEEP_INLINE __m256 lower(Reg a) { return _mm512_castps512_ps256(a); }
FASTEEP_INLINE float sum_of(const Reg (&a)[kLaneRegs]) {
  return tree8(_mm256_add_ps(lower(a[0]), upper(a[0])), add4);
}
FASTEEP_INLINE float largest_of(const Reg (&a)[kLaneRegs]) {
  return tree8(_mm256_max_ps(lower(a[0]), upper(a[0])), max4);
}
#else
FASTEEP_INLINE float sum_of(const Reg (&a)[kLaneRegs]) { return tree8(add(a[0], a[1]), add4); }
FASTEEP_INLINE float largest_of(const Reg (&a)[kLaneRegs]) {
  return tree8(max_of(a[0], a[1]), max4);
}
#endif

#else

template <class Combine>
FASTEEP_INLINE float tree(const Reg (&a)[kLaneRegs], Combine combine) {
  float lanes[kLanes];
  for (int v = 0; v < kLaneRegs; ++v) store(lanes + v * kRegLanes, a[v]);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] = combine(lanes[i], lanes[i + width]);
  return lanes[0];
}
FASTEEP_INLINE float sum_of(const Reg (&a)[kLaneRegs]) {
  return tree(a, [](float x, float y) { return x + y; });
}
FASTEEP_INLINE float largest_of(const Reg (&a)[kLaneRegs]) {
  return tree(a, [](float x, float y) { return x > y ? x : y; });
}

#endif

}  // namespace
}  // namespace fasteep
