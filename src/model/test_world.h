#pragma once
// A model over one or more in-process ranks, for tests. Include from *_test.cc only.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "model/checkpoint.h"
#include "model/model.h"
#include "model/weight_source.h"
#include "placement/placement.h"
#include "transport/doorbell.h"
#include "transport/window.h"

namespace fasteep {

inline constexpr int kTestBlockTokens = 16;
inline constexpr int kTestBlocks = 128;
inline constexpr int kTestRows = 256;

struct WorldOptions {
  DType dtype = DType::kFloat32;
  int num_ranks = 1;
  int threads = 1;
};

// A sequence's cache on one rank.
struct TestSequence {
  std::vector<BlockId> blocks;
  int length = 0;
};
// The next tokens of a sequence, as rows of a batch.
struct Piece {
  TestSequence* sequence;
  std::vector<TokenId> tokens;
};

class WorldRank {
 public:
  WorldRank(int rank, const WeightSource& source, const View& view, const WorldOptions& options)
      : config_(source.config()),
        weights_(ReplicatedWeights::load(source, options.dtype, ledger_).value()),
        pool_(options.threads),
        slots_(make_slots(RankId(rank), source, view, options.dtype)),
        kv_(KvBlocks::create(kTestBlocks, config_.num_layers,
                             config_.kv_shape(options.dtype, kTestBlockTokens).layer_block_bytes(),
                             ledger_)
                .value()) {
    ExchangeOptions exchange;
    exchange.rank = RankId(rank);
    exchange.incarnation = Incarnation(1);
    exchange.max_ranks = options.num_ranks;
    exchange.max_rows = kTestRows;
    exchange.top_k = config_.top_k;
    exchange.shape = config_.expert_shape(options.dtype);
    exchange.may_spin = false;
    const int window = create_window_fd(Exchange::window_size_bytes(exchange)).value();
    const int doorbell = create_doorbell().value();
    window_ = Descriptor(dup(window));
    doorbell_ = Descriptor(dup(doorbell));
    exchange_ =
        Exchange::create(exchange, window, doorbell, slots_, kernels_, system_clock()).value();
    model_ = std::make_unique<Model>(config_, weights_, kernels_, *exchange_, kv_,
                                     Workspace::create(config_, kTestRows, ledger_).value());
  }

  PeerDescriptors descriptors(int rank) const {
    return {RankId(rank), Incarnation(1), reopen_read_only(window_.get()).value(),
            dup(doorbell_.get())};
  }
  Exchange& exchange() { return *exchange_; }
  Model& model() { return *model_; }

  // One step; logits of every row, [rows * vocab_size].
  std::vector<float> step(const std::vector<Piece>& pieces) {
    std::vector<TokenId> tokens;
    std::vector<BatchSequence> sequences;
    for (const Piece& piece : pieces) {
      TestSequence& s = *piece.sequence;
      const int count = static_cast<int>(piece.tokens.size());
      while (static_cast<int>(s.blocks.size()) * kTestBlockTokens < s.length + count)
        s.blocks.push_back(BlockId(next_block_++));
      sequences.push_back({static_cast<int>(tokens.size()), count, s.length, s.blocks});
      tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
      s.length += count;
    }
    std::vector<int> rows(tokens.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i);
    std::vector<float> logits(tokens.size() * config_.vocab_size);
    exchange_->begin_step();
    const Result<void> done =
        model_->forward({tokens, sequences, rows},
                        {logits.data(), static_cast<int64_t>(tokens.size()), config_.vocab_size});
    exchange_->end_step();
    CHECK(done.has_value(), "{}", done.error().message());
    return logits;
  }

  // Logits of every token, computed in pieces of `chunk` tokens.
  std::vector<float> prefill(TestSequence& sequence, const std::vector<TokenId>& tokens,
                             size_t chunk) {
    std::vector<float> logits;
    for (size_t first = 0; first < tokens.size(); first += chunk) {
      const auto end = tokens.begin() + std::min(tokens.size(), first + chunk);
      const std::vector<float> piece = step({{&sequence, {tokens.begin() + first, end}}});
      logits.insert(logits.end(), piece.begin(), piece.end());
    }
    return logits;
  }

  // The likeliest tokens after `prompt`, up to `count` or `stop`.
  std::vector<TokenId> greedy(const std::vector<TokenId>& prompt, size_t count, TokenId stop = -1) {
    next_block_ = 0;  // the sequences of earlier runs are over
    TestSequence sequence;
    std::vector<float> logits = prefill(sequence, prompt, 64);
    std::vector<TokenId> tokens;
    while (tokens.size() < count && (tokens.empty() || tokens.back() != stop)) {
      const auto last = logits.end() - config_.vocab_size;
      tokens.push_back(static_cast<TokenId>(std::max_element(last, logits.end()) - last));
      if (tokens.size() < count) logits = step({{&sequence, {tokens.back()}}});
    }
    return tokens;
  }

 private:
  ExpertSlots make_slots(RankId rank, const WeightSource& source, const View& view, DType dtype) {
    const auto held = view.experts_of(rank);
    ExpertSlots slots = ExpertSlots::create(static_cast<int>(held.size()),
                                            ffn_size_bytes(config_.expert_shape(dtype)), ledger_)
                            .value();
    for (const auto& [layer, expert] : held) {
      const SlotId slot = slots.acquire().value();
      load_expert(source, dtype, {layer, expert}, slots.data(slot));
      slots.publish(slot, {layer, expert});
    }
    return slots;
  }

  const ModelConfig& config_;
  DeviceLedger ledger_{size_t{1} << 30};
  ReplicatedWeights weights_;
  ThreadPool pool_;
  Kernels kernels_{supported_isas().back(), pool_};
  ExpertSlots slots_;
  KvBlocks kv_;
  Descriptor window_, doorbell_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Model> model_;
  int next_block_ = 0;
};

class ModelWorld {
 public:
  ModelWorld(const std::string& folder, const WorldOptions& options)
      : config_(load_config(folder).value()) {
    const Checkpoint checkpoint = Checkpoint::open(folder).value();
    const WeightSource source = WeightSource::create(checkpoint, config_).value();
    std::vector<Member> members;
    for (int rank = 0; rank < options.num_ranks; ++rank)
      members.push_back({RankId(rank), Incarnation(1)});
    const auto view = std::make_shared<const View>(
        initial_view(Epoch(1), members, config_.moe_shape(), {}).value());
    for (int rank = 0; rank < options.num_ranks; ++rank)
      ranks_.push_back(std::make_unique<WorldRank>(rank, source, *view, options));
    introduce(view);
  }

  const ModelConfig& config() const { return config_; }
  WorldRank& rank(int index) { return *ranks_[index]; }
  int num_ranks() const { return static_cast<int>(ranks_.size()); }

  // Runs body(rank index) on every rank at once; a rank that is done serves the others.
  template <class Body>
  void run_everywhere(const Body& body) {
    std::atomic<int> running = num_ranks();
    std::vector<std::jthread> threads;
    for (int i = 0; i < num_ranks(); ++i)
      threads.emplace_back([&, i] {
        body(i);
        --running;
        while (running > 0)
          rank(i).exchange().wait(system_clock().now() + std::chrono::milliseconds(10));
      });
  }

 private:
  void introduce(const ViewPtr& view) {
    for (int a = 0; a < num_ranks(); ++a)
      for (int b = 0; b < num_ranks(); ++b)
        if (a != b) {
          const Result<void> met = rank(a).exchange().connect(rank(b).descriptors(b));
          CHECK(met.has_value(), "{}", met.error().message());
        }
    for (const auto& each : ranks_) {
      each->exchange().see_view(view);
      each->exchange().adopt_newest();
    }
  }

  ModelConfig config_;
  std::vector<std::unique_ptr<WorldRank>> ranks_;
};

}  // namespace fasteep
