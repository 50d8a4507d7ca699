#pragma once
// What the kernels' tests share: random rows, packed weights, and comparisons that say where.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "kernels/reference.h"

namespace fasteep {

// Rows with their own memory.
struct Rows {
  int64_t rows, cols;
  std::vector<float> values;
  Rows(int64_t rows_, int64_t cols_, float fill = 0)
      : rows(rows_), cols(cols_), values(rows_ * cols_, fill) {}
  Span2<float> span() { return {values.data(), rows, cols}; }
  Span2<const float> span() const { return {values.data(), rows, cols}; }
  Span2<const float> row(int64_t r) const { return span().rows_at(r, 1); }
};

inline Rows random_rows(int64_t rows, int64_t cols, uint64_t seed, double scale = 1) {
  Rows result(rows, cols);
  Rng rng(seed);
  for (float& x : result.values) x = static_cast<float>(scale * rng.normal());
  return result;
}

inline float rounded(float x, DType dtype) {
  return dtype == DType::kBFloat16 ? round_to_bf16(x) : x;
}
inline Rows rounded(Rows rows, DType dtype) {
  for (float& x : rows.values) x = rounded(x, dtype);
  return rows;
}

inline const std::byte* bytes_of(const std::vector<float>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

// Aligned bytes.
class Bytes {
 public:
  explicit Bytes(size_t n) : storage_(n + kPackAlignment), size_(n) {}
  std::byte* data() {
    const auto at = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (kPackAlignment - at % kPackAlignment) % kPackAlignment;
  }
  size_t size() const { return size_; }

 private:
  std::vector<std::byte> storage_;
  size_t size_;
};

struct Packed {
  Packed(DType dtype_, const Rows& w)
      : dtype(dtype_),
        outputs(static_cast<int>(w.rows)),
        inputs(static_cast<int>(w.cols)),
        bytes(packed_size_bytes(dtype, outputs, inputs)) {
    pack_begin(dtype, outputs, inputs, bytes.data());
    pack_rows(dtype, outputs, inputs, 0, outputs, DType::kFloat32, bytes_of(w.values),
              bytes.data());
  }
  PackedMatrix view() { return {dtype, outputs, inputs, bytes.data()}; }
  DType dtype;
  int outputs, inputs;
  Bytes bytes;
};

// How far a chain of n float32 multiply-adds may stray, relative to the sum of absolute products.
// vdpbf16ps rounds twice per pair and drops denormals: twice that covers it.
inline double chain_tolerance(int64_t n) { return 2.0 * static_cast<double>(n + 2) * 0x1p-24; }

// |actual - expected| <= tolerance(r, c); the failure names the worst element.
template <class Tolerance>
void expect_near(const Rows& actual, const reference::Matrix& expected, Tolerance tolerance) {
  ASSERT_EQ(actual.rows, expected.rows);
  ASSERT_EQ(actual.cols, expected.cols);
  double worst = 0;
  int64_t row = 0, col = 0;
  for (int64_t r = 0; r < actual.rows; ++r) {
    for (int64_t c = 0; c < actual.cols; ++c) {
      const double error = std::abs(actual.span().row(r)[c] - expected.at(r, c)) / tolerance(r, c);
      if (!(error <= worst)) worst = error, row = r, col = c;
    }
  }
  EXPECT_LE(worst, 1.0) << "row " << row << " column " << col << ": " << actual.span().row(row)[col]
                        << " is not " << expected.at(row, col) << " within " << tolerance(row, col);
}

inline void expect_same_bits(Span2<const float> actual, Span2<const float> expected,
                             const std::string& what) {
  ASSERT_EQ(actual.rows(), expected.rows());
  ASSERT_EQ(actual.cols(), expected.cols());
  for (int64_t r = 0; r < actual.rows(); ++r) {
    const auto a = actual.row(r), b = expected.row(r);
    for (size_t c = 0; c < a.size(); ++c)
      ASSERT_EQ(std::bit_cast<uint32_t>(a[c]), std::bit_cast<uint32_t>(b[c]))
          << what << ": row " << r << " column " << c << ": " << a[c] << " and " << b[c];
  }
}

// Sets whose float32 chains must agree to the bit, plainest first.
inline std::vector<Isa> float32_chain_isas() {
  std::vector<Isa> isas = supported_isas();
  std::erase(isas, Isa::kAvx512Bf16);
  return isas;
}

inline std::string name_of(Isa isa, DType dtype) {
  return std::string(to_string(isa)) + "_" + std::string(to_string(dtype));
}

}  // namespace fasteep
