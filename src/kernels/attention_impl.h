#pragma once
// Online-softmax attention of a few query rows over one KV head. Included by table_*.cc units only.
// Within a run of 16 positions K is [head_dim, 16] and V is [16, head_dim]. A query sees the runs
// in order; what it computes in one does not depend on the queries that share the loads.
#include "kernels/attention.h"
#include "kernels/gemm_impl.h"
#include "kernels/kernel_table.h"
#include "kernels/lanes.h"

namespace fasteep {
namespace {

static_assert(kAttentionRun == kLanes);

#if defined(__AVX512F__)
constexpr int kQueryTile = 12;
#elif defined(__AVX2__)
constexpr int kQueryTile = 4;  // the usual group; 8 of 16 registers accumulate, as many chains as
                               // the two multiply-add pipes have stages
#else
constexpr int kQueryTile = 2;
#endif

struct Float32Cache {
  using Element = float;
  static FASTEEP_INLINE Reg read(const float* p) { return load(p); }
  static FASTEEP_INLINE Reg read_tail(const float* p, int n) { return load_tail(p, n); }
};
struct BFloat16Cache {
  using Element = uint16_t;
  static FASTEEP_INLINE Reg read(const uint16_t* p) { return load_bf16(p); }
  static FASTEEP_INLINE Reg read_tail(const uint16_t* p, int n) {
    uint16_t padded[kRegLanes] = {};
    for (int i = 0; i < n; ++i) padded[i] = p[i];
    return load_bf16(padded);
  }
};

// State of the queries of one item: query i = row * group + head. In the item's scratch.
struct Queries {
  const float* const* q;  // [n] rows of head_dim
  float* sums;            // [n, head_dim]
  float* weights;         // [n, 16]: scores, then exp(score - maximum) of the current run
  float* maximum;         // [n]
  float* total;           // [n]
  int head_dim;
  float scale;
};

// Where the head's keys and values of one run lie.
template <class Element>
struct RunData {
  RunData(const AttentionItem& item, int run) {
    const std::byte* block = item.blocks[run / item.block_runs];
    const ptrdiff_t offset = ptrdiff_t{run % item.block_runs} * kLanes * item.head_dim;
    keys = reinterpret_cast<const Element*>(block + item.key_offset) + offset;
    values = reinterpret_cast<const Element*>(block + item.value_offset) + offset;
  }
  const Element* keys;
  const Element* values;
};

// Scores of kCount queries against 16 positions. Meanwhile the next run is fetched, line by line: a
// head's runs are scattered, and the hardware's own prefetching finds no pattern in them.
template <class Cache, int kCount>
FASTEEP_INLINE void score_tile(const Queries& s, int first, const typename Cache::Element* keys,
                               const RunData<typename Cache::Element>& next) {
  Reg sums[kCount][kLaneRegs];
  const float* q[kCount];
#pragma GCC unroll 12
  for (int i = 0; i < kCount; ++i) {
    q[i] = s.q[first + i];
#pragma GCC unroll 2
    for (int v = 0; v < kLaneRegs; ++v) sums[i][v] = set1(0.0f);
  }
  for (int d = 0; d < s.head_dim; ++d) {
    __builtin_prefetch(next.keys + d * kLanes, 0, 2);
    __builtin_prefetch(next.values + d * kLanes, 0, 2);
    Reg k[kLaneRegs];
#pragma GCC unroll 2
    for (int v = 0; v < kLaneRegs; ++v) k[v] = Cache::read(keys + d * kLanes + v * kRegLanes);
#pragma GCC unroll 12
    for (int i = 0; i < kCount; ++i) {
      const Reg value = set1(q[i][d]);
#pragma GCC unroll 2
      for (int v = 0; v < kLaneRegs; ++v) sums[i][v] = fma(value, k[v], sums[i][v]);
    }
  }
  const Reg scale = set1(s.scale);
#pragma GCC unroll 12
  for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kLaneRegs; ++v)
      store(s.weights + (first + i) * kLanes + v * kRegLanes, mul(sums[i][v], scale));
  }
}

// A larger maximum: what was summed so far shrinks by exp(before - now).
inline void raise_maximum(const Queries& s, int query, float largest) {
  float factors[kRegLanes];
  store(factors, exp_of(set1(s.maximum[query] - largest)));
  s.maximum[query] = largest;
  s.total[query] *= factors[0];
  float* sums = s.sums + query * s.head_dim;
  int d = 0;
  for (; d + kRegLanes <= s.head_dim; d += kRegLanes)
    store(sums + d, mul(load(sums + d), set1(factors[0])));
  for (; d < s.head_dim; ++d) sums[d] *= factors[0];
}

// Turns one query's scores of a run into weights; positions from `valid` on do not exist for it.
FASTEEP_INLINE void softmax_step(const Queries& s, int query, int valid) {
  float* weights = s.weights + query * kLanes;
  Reg lanes[kLaneRegs];
#pragma GCC unroll 2
  for (int v = 0; v < kLaneRegs; ++v)
    lanes[v] =
        select_first(valid - v * kRegLanes, load(weights + v * kRegLanes), set1(-__builtin_inff()));
  const float largest = largest_of(lanes);
  // Otherwise the factor is exp(0), which is 1 exactly.
  if (__builtin_expect(largest > s.maximum[query], 0)) raise_maximum(s, query, largest);
  const Reg top = set1(s.maximum[query]);
#pragma GCC unroll 2
  for (int v = 0; v < kLaneRegs; ++v) {
    lanes[v] = select_first(valid - v * kRegLanes, exp_of(sub(lanes[v], top)), set1(0.0f));
    store(weights + v * kRegLanes, lanes[v]);
  }
  s.total[query] += sum_of(lanes);
}

// sums += weights * V for kCount queries and dimensions [d, d + n), n <= kRegLanes * kLaneRegs.
template <class Cache, int kCount, bool kWhole>
FASTEEP_INLINE void value_tile(const Queries& s, int first, const typename Cache::Element* values,
                               int valid, int d, int n) {
  constexpr int kRegs = kWhole ? kLaneRegs : 1;
  Reg sums[kCount][kRegs];
#pragma GCC unroll 12
  for (int i = 0; i < kCount; ++i) {
    const float* from = s.sums + (first + i) * s.head_dim + d;
#pragma GCC unroll 2
    for (int v = 0; v < kRegs; ++v)
      sums[i][v] = kWhole ? load(from + v * kRegLanes) : load_tail(from, n);
  }
  for (int j = 0; j < valid; ++j) {
    const typename Cache::Element* row = values + j * s.head_dim + d;
    Reg value[kRegs];
#pragma GCC unroll 2
    for (int v = 0; v < kRegs; ++v)
      value[v] = kWhole ? Cache::read(row + v * kRegLanes) : Cache::read_tail(row, n);
#pragma GCC unroll 12
    for (int i = 0; i < kCount; ++i) {
      const Reg weight = set1(s.weights[(first + i) * kLanes + j]);
#pragma GCC unroll 2
      for (int v = 0; v < kRegs; ++v) sums[i][v] = fma(weight, value[v], sums[i][v]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kCount; ++i) {
    float* to = s.sums + (first + i) * s.head_dim + d;
#pragma GCC unroll 2
    for (int v = 0; v < kRegs; ++v) {
      if (kWhole)
        store(to + v * kRegLanes, sums[i][v]);
      else
        store_tail(to, n, sums[i][v]);
    }
  }
}

// One run for kCount queries that all see its first `valid` positions.
template <class Cache, int kCount>
void run_tile(const Queries& s, int first, const RunData<typename Cache::Element>& data,
              const RunData<typename Cache::Element>& next, int valid) {
  score_tile<Cache, kCount>(s, first, data.keys, next);
  for (int i = 0; i < kCount; ++i) softmax_step(s, first + i, valid);
  int d = 0;
  for (; d + kLanes <= s.head_dim; d += kLanes)
    value_tile<Cache, kCount, true>(s, first, data.values, valid, d, kLanes);
  for (; d < s.head_dim; d += kRegLanes) {
    const int n = s.head_dim - d < kRegLanes ? s.head_dim - d : kRegLanes;
    value_tile<Cache, kCount, false>(s, first, data.values, valid, d, n);
  }
}

template <class Cache, int kCount>
void run_tile_of(int count, const Queries& s, int first,
                 const RunData<typename Cache::Element>& data,
                 const RunData<typename Cache::Element>& next, int valid) {
  if constexpr (kCount > 1) {
    if (count < kCount) return run_tile_of<Cache, kCount - 1>(count, s, first, data, next, valid);
  }
  run_tile<Cache, kCount>(s, first, data, next, valid);
}

// Queries [first, first + count) see runs [begin, end), of the last one `valid` positions.
template <class Cache>
void attend_runs(const AttentionItem& item, const Queries& s, int first, int count, int begin,
                 int end, int valid) {
  using Run = RunData<typename Cache::Element>;
  const int tiles = (count + kQueryTile - 1) / kQueryTile;
  for (int run = begin; run < end; ++run) {
    const Run data(item, run), next(item, run + 1 < end ? run + 1 : run);
    for (int t = 0, query = first; t < tiles; ++t) {
      const int height = count / tiles + (t < count % tiles ? 1 : 0);
      run_tile_of<Cache, kQueryTile>(height, s, query, data, next, run + 1 == end ? valid : kLanes);
      query += height;
    }
  }
}

template <class Cache>
void attend(const AttentionItem& item) {
  const int n = item.num_rows * item.group;
  const float** q = item.queries;
  float* floats = item.scratch;
  const Queries s{q,
                  floats,
                  floats + n * item.head_dim,
                  floats + n * (item.head_dim + kLanes),
                  floats + n * (item.head_dim + kLanes + 1),
                  item.head_dim,
                  item.scale};
  for (int i = 0; i < n; ++i) {
    q[i] = item.q + (i / item.group) * item.stride + (i % item.group) * item.head_dim;
    s.maximum[i] = -__builtin_inff();
    s.total[i] = 0.0f;
  }
  for (int i = 0; i < n * item.head_dim; ++i) s.sums[i] = 0.0f;

  // Runs that every row sees whole are shared by all queries; the rest is done row by row, so that
  // no row touches positions after its own.
  const int shared = (item.first_position + 1) / kLanes;
  attend_runs<Cache>(item, s, 0, n, 0, shared, kLanes);
  for (int r = 0; r < item.num_rows; ++r) {
    const int seen = item.first_position + r + 1;
    const int end = (seen + kLanes - 1) / kLanes;
    attend_runs<Cache>(item, s, r * item.group, item.group, shared, end, seen - (end - 1) * kLanes);
  }
  for (int i = 0; i < n; ++i) {
    float* out = item.out + (i / item.group) * item.stride + (i % item.group) * item.head_dim;
    for (int d = 0; d < item.head_dim; ++d) out[d] = s.sums[i * item.head_dim + d] / s.total[i];
  }
}

}  // namespace
}  // namespace fasteep
