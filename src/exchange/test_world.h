#pragma once
// Several exchanges over one random model, for tests. Include from *_test.cc only.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "exchange/exchange.h"
#include "placement/placement.h"
#include "transport/doorbell.h"
#include "transport/window.h"

namespace fasteep {

inline constexpr int kTestExperts = 8;
inline constexpr int kTestTopK = 3;
inline constexpr int kTestLayers = 3;

inline FfnShape test_shape(DType dtype = DType::kFloat32) { return {dtype, 48, 32}; }

inline ModelShape test_model() {
  ModelShape model{{}, kTestExperts};
  for (int layer = 0; layer < kTestLayers; ++layer) model.moe_layers.push_back(LayerId(layer));
  return model;
}

// Random numbers that depend on the seed only.
inline std::vector<float> random_floats(uint64_t seed, size_t count) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.normal()) * 0.2f;
  return values;
}

inline void write_expert(const FfnShape& shape, ExpertKey key, std::byte* slot) {
  const size_t size = static_cast<size_t>(shape.hidden) * shape.intermediate;
  const auto weights = random_floats(1000 + key.layer.value * 100 + key.expert.value, 3 * size);
  const auto* bytes = reinterpret_cast<const std::byte*>(weights.data());
  pack_ffn(shape, DType::kFloat32, bytes, bytes + size * sizeof(float),
           bytes + 2 * size * sizeof(float), slot);
}

// The input of one layer call.
struct LayerInput {
  LayerInput(uint64_t seed, int num_rows)
      : rows(num_rows), values(random_floats(seed, static_cast<size_t>(num_rows) * 48)) {
    Rng rng(seed, 1);
    for (int row = 0; row < num_rows; ++row) {
      const auto first = static_cast<int32_t>(rng.below(kTestExperts));
      for (int j = 0; j < kTestTopK; ++j) ids.push_back((first + j * 3) % kTestExperts);
      for (int j = 0; j < kTestTopK; ++j) weights.push_back(static_cast<float>(rng.uniform()));
    }
  }
  int rows;
  std::vector<float> values, weights;
  std::vector<int32_t> ids;
};

// One rank: exchange, slots and kernels. The descriptors of its window can be had for peers.
struct TestRank {
  TestRank(const ExchangeOptions& options, int window_fd, int doorbell_fd)
      : options(options),
        slots(ExpertSlots::create(kTestExperts * kTestLayers, ffn_size_bytes(options.shape), ledger)
                  .value()),
        window_copy(dup(window_fd)),
        doorbell_copy(dup(doorbell_fd)),
        exchange(Exchange::create(options, window_fd, doorbell_fd, slots, kernels, system_clock())
                     .value()) {}

  void load(const View& view) {
    for (auto [layer, expert] : view.experts_of(options.rank)) hold({layer, expert});
  }
  void hold(ExpertKey key) {
    const SlotId slot = slots.acquire().value();
    write_expert(options.shape, key, slots.data(slot));
    slots.publish(slot, key);
  }
  PeerDescriptors descriptors() const {
    return {options.rank, options.incarnation, reopen_read_only(window_copy.get()).value(),
            dup(doorbell_copy.get())};
  }
  Result<std::vector<float>> layer(int layer, const LayerInput& input) {
    std::vector<float> x(input.values);
    auto done = exchange->run_layer(LayerId(layer), {input.values.data(), input.rows, 48},
                                    {input.ids.data(), input.rows, kTestTopK},
                                    {input.weights.data(), input.rows, kTestTopK},
                                    {x.data(), input.rows, 48});
    if (!done) return done.error();
    return x;
  }
  // A step over all layers: each one's output is the next one's input.
  Result<std::vector<float>> step(uint64_t seed, int num_rows) {
    LayerInput input(seed, num_rows);
    exchange->adopt_newest();
    exchange->begin_step();
    for (int i = 0; i < kTestLayers; ++i) {
      auto x = layer(i, input);
      if (!x) {
        exchange->end_step();
        return x.error();
      }
      const LayerInput routed(seed + i + 1, num_rows);
      input.ids = routed.ids;
      input.values = *x;
    }
    exchange->end_step();
    return input.values;
  }

  ExchangeOptions options;
  DeviceLedger ledger{size_t{1} << 30};
  ExpertSlots slots;
  ThreadPool pool{1};
  Kernels kernels{supported_isas().back(), pool};
  Descriptor window_copy, doorbell_copy;
  std::unique_ptr<Exchange> exchange;
};

inline ExchangeOptions test_options(int rank, int max_ranks) {
  ExchangeOptions options;
  options.rank = RankId(rank);
  options.incarnation = Incarnation(1);
  options.max_ranks = max_ranks;
  options.max_rows = 64;
  options.top_k = kTestTopK;
  options.shape = test_shape();
  options.may_spin = false;
  options.call_deadline = std::chrono::seconds(30);
  return options;
}

inline std::unique_ptr<TestRank> make_rank(const ExchangeOptions& options) {
  const int window = create_window_fd(Exchange::window_size_bytes(options)).value();
  return std::make_unique<TestRank>(options, window, create_doorbell().value());
}

// Experts dealt over ranks 0..n-1, with `redundant` further replicas per layer.
inline ViewPtr test_view(uint64_t epoch, int num_ranks, int redundant = 0) {
  std::vector<Member> members;
  for (int rank = 0; rank < num_ranks; ++rank) members.push_back({RankId(rank), Incarnation(1)});
  return std::make_shared<const View>(
      initial_view(Epoch(epoch), members, test_model(), {redundant}).value());
}

// A view in which every expert lies on the given ranks.
inline ViewPtr view_on(uint64_t epoch, int num_ranks, std::vector<int> holders) {
  std::vector<Member> members;
  for (int rank = 0; rank < num_ranks; ++rank) members.push_back({RankId(rank), Incarnation(1)});
  std::vector<Replica> replicas;
  for (int rank : holders) replicas.push_back({RankId(rank)});
  return std::make_shared<const View>(
      View::create(Epoch(epoch), members, test_model(),
                   std::vector<std::vector<Replica>>(kTestLayers * kTestExperts, replicas))
          .value());
}

// n ranks, all connected, loaded and under one view.
struct TestWorld {
  TestWorld(
      int n, ViewPtr view, void (*change)(ExchangeOptions&) = [](ExchangeOptions&) {}) {
    for (int rank = 0; rank < n; ++rank) {
      ExchangeOptions options = test_options(rank, n);
      change(options);
      ranks.push_back(make_rank(options));
    }
    for (auto& rank : ranks) {
      for (auto& peer : ranks) {
        if (peer == rank) continue;
        EXPECT_TRUE(rank->exchange->connect(peer->descriptors()));
      }
      rank->load(*view);
      rank->exchange->see_view(view);
      rank->exchange->adopt_newest();
    }
  }
  TestRank& operator[](int rank) { return *ranks[rank]; }
  Exchange& exchange(int rank) { return *ranks[rank]->exchange; }

  std::vector<std::unique_ptr<TestRank>> ranks;
};

// Serves on a thread of its own until destroyed.
class ServingThread {
 public:
  explicit ServingThread(Exchange& exchange)
      : thread_([this, &exchange] {
          while (!stop_.load()) {
            exchange.wait(system_clock().now() + std::chrono::milliseconds(5));
          }
        }) {}
  ~ServingThread() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// What a rank that holds everything computes.
inline std::vector<float> alone_step(
    uint64_t seed, int num_rows, void (*change)(ExchangeOptions&) = [](ExchangeOptions&) {}) {
  TestWorld world(1, test_view(1, 1), change);
  return world[0].step(seed, num_rows).value();
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace fasteep
