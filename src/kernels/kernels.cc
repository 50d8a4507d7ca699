#include "kernels/kernels.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "kernels/kernels_state.h"

namespace fasteep {

namespace {

constexpr double kSerialNs = 5000;  // below this, waking a second thread costs more than it gives
constexpr int kManyRows = 16;       // below this, reading the weights is the bound

// One panel for one block of rows: product, bias, and the part of y that it covers.
void gemm_block(const KernelTable& table, const PackedMatrix& w, const std::byte* x,
                size_t stride_bytes, std::span<const float> bias, int panel, int first_row,
                int rows, Span2<float> y) {
  alignas(64) float out[kRowBlock * kPanelWidth];
  const auto type = static_cast<size_t>(w.dtype);
  const size_t panel_bytes = packed_size_bytes(w.dtype, kPanelWidth, w.inputs);
  table.panel[type](x + first_row * stride_bytes, stride_bytes, rows, w.data + panel * panel_bytes,
                    w.inputs, out);
  const int first = panel * kPanelWidth;
  const int n = std::min(kPanelWidth, w.outputs - first);
  for (int r = 0; r < rows; ++r) {
    float* to = y.data() + (first_row + r) * y.stride() + first;
    const float* from = out + r * kPanelWidth;
    for (int i = 0; i < n; ++i) to[i] = bias.empty() ? from[i] : from[i] + bias[first + i];
  }
}

}  // namespace

void Kernels::State::spread(int64_t count, double cost,
                            FunctionRef<void(int64_t, int64_t, int)> body, int64_t min_chunk) {
  if (count == 0) return;
  const double total = cost * static_cast<double>(count);
  if (pool.num_threads() == 1 || count == 1 || total < kSerialNs) return body(0, count, 0);
  const double pieces = std::min(total / (kSerialNs / 4), 4.0 * pool.num_threads());
  const auto chunk = static_cast<int64_t>(std::ceil(static_cast<double>(count) / pieces));
  pool.parallel_for(count, std::max(chunk, min_chunk), body);
}

Kernels::Kernels(Isa isa, ThreadPool& pool) : state_(std::make_unique<State>(isa, pool)) {}
Kernels::~Kernels() = default;
Isa Kernels::isa() const { return state_->isa; }
ThreadPool& Kernels::pool() { return state_->pool; }

void Kernels::gemm(const PackedMatrix& w, Span2<const float> x, std::span<const float> bias,
                   Span2<float> y) {
  CHECK(x.cols() == w.inputs && y.cols() == w.outputs && x.rows() == y.rows(),
        "gemm of [{}, {}] by [{}, {}] into [{}, {}]", x.rows(), x.cols(), w.outputs, w.inputs,
        y.rows(), y.cols());
  CHECK(bias.empty() || bias.size() == static_cast<size_t>(w.outputs), "{} biases for {} outputs",
        bias.size(), w.outputs);
  State& s = *state_;
  const int rows = static_cast<int>(x.rows());
  if (rows == 0 || w.outputs == 0) return;
  const auto type = static_cast<size_t>(w.dtype);
  const auto* prepared = reinterpret_cast<const std::byte*>(x.data());
  size_t stride_bytes = sizeof(float) * x.stride();
  if (w.dtype != DType::kFloat32) {
    stride_bytes = s.table.prepared_bytes[type](w.inputs);
    std::byte* to = s.inputs.at_least(stride_bytes * rows);
    s.spread(rows, 0.2 * w.inputs, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r)
        s.table.prepare[type](x.row(r).data(), w.inputs, to + r * stride_bytes);
    });
    prepared = to;
  }
  // Row blocks inside panels: a panel is read from memory once, then from cache.
  const int blocks = (rows + kRowBlock - 1) / kRowBlock;
  const int64_t panels = (w.outputs + kPanelWidth - 1) / kPanelWidth;
  const size_t panel_bytes = packed_size_bytes(w.dtype, kPanelWidth, w.inputs);
  const double products = static_cast<double>(kPanelWidth) * w.inputs * std::max(1, rows / blocks);
  const double cost = std::max(0.03 * products, 0.06 * static_cast<double>(panel_bytes) / blocks);
  const int64_t min_chunk = rows < kManyRows ? s.streaming_chunk(panels, panel_bytes) : 1;
  const auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int first_row = static_cast<int>(i % blocks) * kRowBlock;
      gemm_block(s.table, w, prepared, stride_bytes, bias, static_cast<int>(i / blocks), first_row,
                 std::min(kRowBlock, rows - first_row), y);
    }
  };
  s.spread(panels * blocks, cost, body, min_chunk);
}

void Kernels::rms_norm(Span2<const float> x, std::span<const float> weight, float eps,
                       DType round_to, Span2<float> out) {
  CHECK(x.rows() == out.rows() && x.cols() == out.cols() && weight.size() == size_t(x.cols()),
        "rms_norm of [{}, {}] with {} weights into [{}, {}]", x.rows(), x.cols(), weight.size(),
        out.rows(), out.cols());
  State& s = *state_;
  const int n = static_cast<int>(x.cols());
  s.spread(x.rows(), 0.4 * n, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      s.table.rms_norm_row(x.row(r).data(), weight.data(), eps, round_to == DType::kBFloat16,
                           out.row(r).data(), n);
  });
}

void Kernels::rope(Span2<float> x, int head_dim, Span2<const float> cos, Span2<const float> sin) {
  CHECK(head_dim % 2 == 0 && x.cols() % head_dim == 0 && cos.cols() == head_dim / 2 &&
            sin.cols() == head_dim / 2 && cos.rows() == x.rows() && sin.rows() == x.rows(),
        "rope of [{}, {}], head_dim {}, with cos [{}, {}]", x.rows(), x.cols(), head_dim,
        cos.rows(), cos.cols());
  State& s = *state_;
  const int heads = static_cast<int>(x.cols()) / head_dim;
  s.spread(x.rows(), 0.5 * static_cast<double>(x.cols()), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      s.table.rope_row(x.row(r).data(), heads, head_dim, cos.row(r).data(), sin.row(r).data());
  });
}

void Kernels::round_rows(Span2<const float> x, DType dtype, std::byte* destination) {
  State& s = *state_;
  const int n = static_cast<int>(x.cols());
  const size_t row_bytes = size_bytes(dtype) * n;
  s.spread(x.rows(), 0.2 * n, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      if (dtype == DType::kBFloat16)
        s.table.round_row(x.row(r).data(), n, destination + r * row_bytes);
      else
        std::copy_n(reinterpret_cast<const std::byte*>(x.row(r).data()), row_bytes,
                    destination + r * row_bytes);
    }
  });
}

void Kernels::add(Span2<const float> y, Span2<float> x) {
  CHECK(y.rows() == x.rows() && y.cols() == x.cols(), "adding [{}, {}] to [{}, {}]", y.rows(),
        y.cols(), x.rows(), x.cols());
  State& s = *state_;
  const int n = static_cast<int>(x.cols());
  s.spread(x.rows(), 0.2 * n, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) s.table.add_row(y.row(r).data(), x.row(r).data(), n);
  });
}

namespace {

// The k largest of p, ties to the lower index, by insertion: k is small.
void select_topk(std::span<const float> p, int k, int32_t* ids, float* weights) {
  int held = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(p.size()); ++i) {
    if (held == k && p[i] <= weights[k - 1]) continue;
    int at = held < k ? held++ : k - 1;
    for (; at > 0 && weights[at - 1] < p[i]; --at) {
      weights[at] = weights[at - 1];
      ids[at] = ids[at - 1];
    }
    weights[at] = p[i];
    ids[at] = i;
  }
}

void divide_by_sum(std::span<float> weights) {
  float sum = 0;
  for (float w : weights) sum += w;
  for (float& w : weights) w /= sum;
}

// Threads meet bad rows in any order; the lowest is named.
void lower_to(std::atomic<int64_t>& lowest, int64_t value) {
  int64_t seen = lowest.load();
  while (value < seen && !lowest.compare_exchange_weak(seen, value)) {
  }
}

}  // namespace

Result<void> Kernels::route_topk(Span2<const float> logits, int k, bool normalise,
                                 Span2<int32_t> ids, Span2<float> weights) {
  const int experts = static_cast<int>(logits.cols());
  CHECK(k >= 1 && k <= experts && ids.cols() == k && weights.cols() == k &&
            ids.rows() == logits.rows() && weights.rows() == logits.rows(),
        "top-{} of [{}, {}] into [{}, {}]", k, logits.rows(), experts, ids.rows(), ids.cols());
  State& s = *state_;
  for (Scratch& scratch : s.per_thread) scratch.at_least(sizeof(float) * experts);
  std::atomic<int64_t> bad_row{logits.rows()};
  s.spread(logits.rows(), 8.0 * experts, [&](int64_t begin, int64_t end, int thread) {
    auto* p = reinterpret_cast<float*>(s.per_thread[thread].at_least(0));
    for (int64_t r = begin; r < end; ++r) {
      const std::span<const float> row = logits.row(r);
      if (!std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); })) {
        lower_to(bad_row, r);
        continue;
      }
      s.table.softmax_row(row.data(), p, experts);
      const std::span<float> w = weights.row(r);
      select_topk({p, row.size()}, k, ids.row(r).data(), w.data());
      if (normalise) divide_by_sum(w);
    }
  });
  if (bad_row == logits.rows()) return {};
  return invalid_input(
      "router logits of row {} are not finite: the weights or the input are broken",
      bad_row.load());
}

void Kernels::combine(Span2<const float> weights, std::span<const float* const> outputs,
                      Span2<float> x) {
  const int k = static_cast<int>(weights.cols());
  CHECK(weights.rows() == x.rows() && outputs.size() == size_t(x.rows() * k),
        "combining {} outputs, {} per row, into {} rows", outputs.size(), k, x.rows());
  State& s = *state_;
  const int n = static_cast<int>(x.cols());
  s.spread(x.rows(), 0.1 * n * (k + 1), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      s.table.combine_row(weights.row(r).data(), outputs.data() + r * k, k, x.row(r).data(), n);
  });
}

}  // namespace fasteep
