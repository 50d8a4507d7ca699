#include "kernels/reference.h"

#include <algorithm>
#include <cmath>

namespace fasteep::reference {

namespace {
double rounded(double x, DType to) {
  return to == DType::kBFloat16 ? double{round_to_bf16(static_cast<float>(x))} : x;
}
}  // namespace

Matrix widen(Span2<const float> x) {
  Matrix result(x.rows(), x.cols());
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < x.cols(); ++c) result.at(r, c) = x.row(r)[c];
  return result;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

Matrix gemm(const Matrix& w, const Matrix& x, std::span<const float> bias) {
  Matrix y(x.rows, w.rows);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t o = 0; o < w.rows; ++o) {
      double sum = 0;
      for (int64_t k = 0; k < w.cols; ++k) sum += x.at(r, k) * w.at(o, k);
      y.at(r, o) = sum + (bias.empty() ? 0.0 : bias[o]);
    }
  }
  return y;
}

Matrix ffn(const Matrix& gate, const Matrix& up, const Matrix& down, const Matrix& x,
           DType round_to) {
  Matrix g = gemm(gate, x, {});
  const Matrix u = gemm(up, x, {});
  for (size_t i = 0; i < g.values.size(); ++i)
    g.values[i] = rounded(silu(g.values[i]) * u.values[i], round_to);
  return gemm(down, g, {});
}

Matrix rms_norm(const Matrix& x, std::span<const float> weight, double eps, DType round_to) {
  Matrix y(x.rows, x.cols);
  for (int64_t r = 0; r < x.rows; ++r) {
    double squares = 0;
    for (int64_t c = 0; c < x.cols; ++c) squares += x.at(r, c) * x.at(r, c);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.cols) + eps);
    for (int64_t c = 0; c < x.cols; ++c)
      y.at(r, c) = rounded(weight[c] * rounded(x.at(r, c) * scale, round_to), round_to);
  }
  return y;
}

Matrix rope(const Matrix& x, int head_dim, const Matrix& cos, const Matrix& sin) {
  Matrix y(x.rows, x.cols);
  const int half = head_dim / 2;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t head = 0; head < x.cols; head += head_dim) {
      for (int i = 0; i < half; ++i) {
        const double a = x.at(r, head + i), b = x.at(r, head + half + i);
        y.at(r, head + i) = a * cos.at(r, i) - b * sin.at(r, i);
        y.at(r, head + half + i) = b * cos.at(r, i) + a * sin.at(r, i);
      }
    }
  }
  return y;
}

std::vector<double> softmax(std::span<const double> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  double sum = 0;
  for (double x : logits) p.push_back(std::exp(x - top)), sum += p.back();
  for (double& x : p) x /= sum;
  return p;
}

Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v, int heads, int kv_heads,
                 int head_dim, double scale) {
  Matrix out(q.rows, q.cols);
  for (int64_t r = 0; r < q.rows; ++r) {
    for (int h = 0; h < heads; ++h) {
      const int64_t q_at = int64_t{h} * head_dim;
      const int64_t kv_at = int64_t{h / (heads / kv_heads)} * head_dim;
      std::vector<double> scores(k.rows - q.rows + r + 1, 0.0);
      for (size_t p = 0; p < scores.size(); ++p) {
        for (int d = 0; d < head_dim; ++d) scores[p] += q.at(r, q_at + d) * k.at(p, kv_at + d);
        scores[p] *= scale;
      }
      const std::vector<double> weights = softmax(scores);
      for (size_t p = 0; p < scores.size(); ++p)
        for (int d = 0; d < head_dim; ++d) out.at(r, q_at + d) += weights[p] * v.at(p, kv_at + d);
    }
  }
  return out;
}

std::vector<Choice> choices(std::span<const float> logits, const SamplingParams& params) {
  std::vector<double> scaled;
  for (float x : logits) scaled.push_back(double{x} / params.temperature);
  std::vector<TokenId> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < order.size()) {
    const float last = logits[order[params.top_k - 1]];
    std::erase_if(order, [&](TokenId t) { return logits[t] < last; });
  }
  std::vector<double> kept;
  for (TokenId t : order) kept.push_back(scaled[t]);
  const std::vector<double> p = softmax(kept);
  std::vector<Choice> result;
  double mass = 0;
  for (size_t i = 0; i < order.size() && (i == 0 || params.top_p >= 1 || mass < params.top_p);
       ++i) {
    if (p[i] < params.min_p * p[0]) break;
    result.push_back({order[i], p[i]});
    mass += p[i];
  }
  for (Choice& choice : result) choice.probability /= mass;
  return result;
}

}  // namespace fasteep::reference
