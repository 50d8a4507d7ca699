// Kernels against this machine's bounds. Shapes of bench-s: hidden 1024, expert width 512, 64
// experts, top-8, 16 heads over 4 KV heads of 64. Each line states its share of the read bandwidth
// or of the multiply-add rate that the probe found just before.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "kernels/probe.h"
#include "kernels/sampling.h"

namespace fasteep {
namespace {

constexpr int kHidden = 1024, kIntermediate = 512, kExperts = 64, kTopK = 8;
constexpr int kHeads = 16, kKvHeads = 4, kHeadDim = 64;

// Anonymous memory in huge pages, freed at exit; weights of ones: speed does not depend on values.
std::byte* huge_bytes(size_t bytes) {
  const size_t page = size_t{2} << 20;
  const size_t rounded = (bytes + page - 1) / page * page;
  void* data =
      mmap(nullptr, rounded + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(data != MAP_FAILED, "mapping {} bytes", rounded);
  auto* aligned =
      reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(data) + page - 1) / page * page);
  madvise(aligned, rounded, MADV_HUGEPAGE);
  std::memset(aligned, 0x3c, rounded);
  return aligned;
}

// One per thread count: the threads, the kernels on them, and what the machine can do.
struct Bench {
  explicit Bench(int threads)
      : isa(fastest_isa(DType::kBFloat16)),
        probe(probe_machine(threads, DType::kBFloat16, isa)),
        pool(threads),
        kernels(isa, pool) {
    std::printf("%d threads, %s: read %.1f GB/s, copy %.1f GB/s, %.0f GFLOP/s, ping-pong %.0f ns\n",
                threads, std::string(to_string(isa)).c_str(), probe.read_bytes_per_s * 1e-9,
                probe.copy_bytes_per_s * 1e-9, probe.flops_per_s * 1e-9, probe.ping_pong_ns);
  }
  void report(benchmark::State& state, double bytes, double flops) const {
    using benchmark::Counter;
    const auto n = static_cast<double>(state.iterations());
    state.counters["GB/s"] = Counter(bytes * n * 1e-9, Counter::kIsRate);
    state.counters["GFLOP/s"] = Counter(flops * n * 1e-9, Counter::kIsRate);
    state.counters["of_read"] = Counter(bytes * n / probe.read_bytes_per_s, Counter::kIsRate);
    state.counters["of_peak"] = Counter(flops * n / probe.flops_per_s, Counter::kIsRate);
  }
  Isa isa;
  MachineProbe probe;
  ThreadPool pool;
  Kernels kernels;
};

Bench& bench(int threads) {
  static std::vector<std::unique_ptr<Bench>> all(16);
  if (!all[threads]) all[threads] = std::make_unique<Bench>(threads);
  return *all[threads];
}

std::vector<float> random_values(size_t n) {
  std::vector<float> values(n);
  Rng rng(1);
  for (size_t i = 0; i < n; ++i)
    values[i] = i < 4096 ? static_cast<float>(rng.normal()) : values[i - 4096];
  return values;
}

// rows x [outputs, 1024]; the weights (128 MiB of matrices in turn) are always in memory, not
// cache.
void gemm(benchmark::State& state) {
  Bench& b = bench(static_cast<int>(state.range(0)));
  const int rows = static_cast<int>(state.range(1)), outputs = static_cast<int>(state.range(2));
  const auto dtype = static_cast<DType>(state.range(3));
  const size_t bytes = packed_size_bytes(dtype, outputs, kHidden);
  const size_t copies = std::max<size_t>(1, (size_t{128} << 20) / bytes);
  std::byte* weights = huge_bytes(bytes * copies);
  const auto x = random_values(size_t(rows) * kHidden);
  std::vector<float> y(size_t(rows) * outputs);
  size_t turn = 0;
  for (auto _ : state) {
    const PackedMatrix w{dtype, outputs, kHidden, weights + bytes * (turn++ % copies)};
    b.kernels.gemm(w, {x.data(), rows, kHidden}, {}, {y.data(), rows, outputs});
  }
  b.report(state, static_cast<double>(bytes), 2.0 * rows * kHidden * outputs);
  munmap(weights, bytes * copies);
}

// One MoE layer for `tokens` rows that each choose 8 of 64 experts at random; 2 layers in turn.
void grouped_ffn(benchmark::State& state) {
  Bench& b = bench(static_cast<int>(state.range(0)));
  const int tokens = static_cast<int>(state.range(1));
  const FfnShape shape{DType::kBFloat16, kHidden, kIntermediate};
  const size_t bytes = ffn_size_bytes(shape);
  std::byte* weights = huge_bytes(bytes * kExperts);
  Rng rng(2);
  constexpr int kChoices = 8;  // several routings, so that one token's experts are not cached
  std::vector<std::vector<FfnGroup>> groups(kChoices);
  double read = 0;
  for (auto& choice : groups) {
    std::vector<int> counts(kExperts);
    for (int t = 0; t < tokens; ++t) {
      std::vector<bool> chosen(kExperts);
      for (int j = 0; j < kTopK;) {
        const auto e = rng.below(kExperts);
        if (chosen[e]) continue;
        chosen[e] = true, ++counts[e], ++j;
      }
    }
    for (int e = 0, first = 0; e < kExperts; first += counts[e], ++e)
      if (counts[e] > 0) choice.push_back({weights + bytes * e, first, counts[e]});
    read += static_cast<double>(bytes * choice.size()) / kChoices;
  }
  const std::vector<BFloat16> x(size_t(tokens) * kHidden, BFloat16(0.5f));
  std::vector<float> y(size_t(tokens) * kTopK * kHidden);
  std::vector<const std::byte*> inputs;
  std::vector<float*> outputs;
  for (int i = 0; i < tokens * kTopK; ++i) {
    inputs.push_back(reinterpret_cast<const std::byte*>(x.data() + size_t(i % tokens) * kHidden));
    outputs.push_back(y.data() + size_t(i) * kHidden);
  }
  size_t turn = 0;
  for (auto _ : state) b.kernels.grouped_ffn(shape, groups[turn++ % kChoices], inputs, outputs);
  b.report(state, read, 6.0 * tokens * kTopK * kHidden * kIntermediate);
  munmap(weights, bytes * kExperts);
}

// `rows` new positions of one sequence after `context` others; 16 layers' caches in turn.
void attention(benchmark::State& state) {
  Bench& b = bench(static_cast<int>(state.range(0)));
  const int rows = static_cast<int>(state.range(1)), context = static_cast<int>(state.range(2));
  const KvShape shape{DType::kBFloat16, kKvHeads, kHeadDim, 16};
  constexpr int kLayers = 16;
  const size_t num_blocks = (size_t(context) + rows + 15) / 16,
               block_bytes = shape.layer_block_bytes();
  std::byte* cache = huge_bytes(block_bytes * num_blocks * kLayers);
  std::vector<std::vector<std::byte*>> blocks(kLayers);
  for (size_t i = 0; i < num_blocks; ++i)
    for (int l = 0; l < kLayers; ++l) blocks[l].push_back(cache + block_bytes * (i * kLayers + l));
  const auto q = random_values(size_t(rows) * kHeads * kHeadDim);
  std::vector<float> out(q.size());
  int turn = 0;
  for (auto _ : state) {
    const AttentionSequence sequence{0, rows, context, blocks[turn++ % kLayers]};
    b.kernels.attention(shape, kHeads, 0.125f, {&sequence, 1}, {q.data(), rows, kHeads * kHeadDim},
                        {out.data(), rows, kHeads * kHeadDim});
  }
  const double pairs = static_cast<double>(rows) * (context + (rows + 1) / 2.0);
  b.report(state, static_cast<double>(block_bytes * num_blocks), 4.0 * pairs * kHeads * kHeadDim);
  munmap(cache, block_bytes * num_blocks * kLayers);
}

void pack(benchmark::State& state) {
  const auto source = random_values(size_t{kHidden} * kHidden);
  std::byte* packed = huge_bytes(packed_size_bytes(DType::kBFloat16, kHidden, kHidden));
  const auto from = static_cast<DType>(state.range(0));
  for (auto _ : state)
    pack_rows(DType::kBFloat16, kHidden, kHidden, 0, kHidden, from,
              reinterpret_cast<const std::byte*>(source.data()), packed);
  state.SetBytesProcessed(state.iterations() * int64_t{2} * kHidden * kHidden);
}

// A vocabulary of 151936 logits: greedy, plain, filtered.
void sampling(benchmark::State& state) {
  Rng rng(3);
  std::vector<float> logits(151936);
  for (float& x : logits) x = static_cast<float>(3 * rng.normal());
  const SamplingParams choices[] = {
      {.temperature = 0}, {.seed = 1}, {.top_p = 0.9f, .top_k = 50, .seed = 1}};
  int64_t position = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(sample(logits, 151936, choices[state.range(0)], position++).token);
}

void synchronise(benchmark::State& state) {
  Bench& b = bench(static_cast<int>(state.range(0)));
  for (auto _ : state) b.pool.run([](int) {});
}

BENCHMARK(gemm)
    ->ArgNames({"threads", "rows", "outputs", "type"})
    ->UseRealTime()
    ->MinTime(0.2)
    ->ArgsProduct({{1, 2}, {1, 2, 4, 8, 64, 512}, {1024}, {1}})
    ->Args({1, 1, 1024, 0})
    ->Args({1, 64, 1024, 0})
    ->Args({2, 1, 32768, 1});
BENCHMARK(grouped_ffn)
    ->ArgNames({"threads", "tokens"})
    ->UseRealTime()
    ->MinTime(0.2)
    ->ArgsProduct({{1, 2}, {1, 2, 4, 8, 16, 32, 64, 512}});
BENCHMARK(attention)
    ->ArgNames({"threads", "rows", "context"})
    ->UseRealTime()
    ->MinTime(0.2)
    ->ArgsProduct({{1, 2}, {1}, {512, 4096}})
    ->Args({1, 512, 0})
    ->Args({2, 512, 0})
    ->Args({1, 64, 4096});
BENCHMARK(pack)->ArgName("from")->Arg(0)->Arg(1)->MinTime(0.1);
BENCHMARK(sampling)->ArgName("kind")->DenseRange(0, 2)->MinTime(0.1);
BENCHMARK(synchronise)->ArgName("threads")->Arg(2)->UseRealTime()->MinTime(0.1);

}  // namespace
}  // namespace fasteep

BENCHMARK_MAIN();
