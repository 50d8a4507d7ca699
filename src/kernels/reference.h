#pragma once
// The kernels as the book has them: in double, one loop per index, no packing. For tests.
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/span2.h"
#include "kernels/sampling.h"

namespace fasteep::reference {

// [rows, cols], row-major.
struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<double> values;
  Matrix(int64_t rows_, int64_t cols_) : rows(rows_), cols(cols_), values(rows_ * cols_) {}
  double& at(int64_t r, int64_t c) { return values[r * cols + c]; }
  double at(int64_t r, int64_t c) const { return values[r * cols + c]; }
};
Matrix widen(Span2<const float> x);

double silu(double x);

// y = x * w^T + bias (if any).
Matrix gemm(const Matrix& w, const Matrix& x, std::span<const float> bias);

// down(silu(gate(x)) * up(x)); the middle is rounded to `round_to`.
Matrix ffn(const Matrix& gate, const Matrix& up, const Matrix& down, const Matrix& x,
           DType round_to);

// x * rsqrt(mean(x^2) + eps) * weight, each product rounded to `round_to` (float32: not at all).
Matrix rms_norm(const Matrix& x, std::span<const float> weight, double eps, DType round_to);

Matrix rope(const Matrix& x, int head_dim, const Matrix& cos, const Matrix& sin);

std::vector<double> softmax(std::span<const double> logits);

// Causal attention of one sequence: q [rows, heads * head_dim]; k, v [positions, kv_heads *
// head_dim]; row r stands at position positions - rows + r.
Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v, int heads, int kv_heads,
                 int head_dim, double scale);

// The tokens that may be drawn and their probabilities, in descending order (ties: lowest id).
struct Choice {
  TokenId token;
  double probability;
};
std::vector<Choice> choices(std::span<const float> logits, const SamplingParams& params);

}  // namespace fasteep::reference
