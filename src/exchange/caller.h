#pragma once
// The caller's side of one layer: posts what the plan says, copies answers out as they arrive.
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "exchange/call_plan.h"
#include "exchange/expert_batch.h"
#include "exchange/membership.h"
#include "exchange/window_layout.h"

namespace fasteep {

// Threads: the rank's step thread.
class Caller {
 public:
  Caller(const ExchangeOptions& options, const WindowLayout& layout, OwnWindow own,
         Membership& membership, ExchangeStats& stats);

  // The rows lie in the own outbox already. ids: [rows, k], valid until end().
  void start(LayerId layer, Span2<const int32_t> ids);
  void end();  // also in mid-call: what arrives later is dropped by its identity
  bool is_active() const { return is_active_; }

  // Posts what is queued for peers with a free lane. Returns whether anything was posted.
  bool post();
  // Copies out what has arrived, drops peers that say they have ended. Returns whether there was
  // any.
  bool collect();
  bool has_answer() const;
  // Own experts: adds queued entries to a batch for the same layer; after its run, settle_own().
  void add_own(ExpertBatch& batch);
  void settle_own();
  bool has_own() const { return is_active_ && plan_.has_queued(self_); }

  void on_lost(RankId rank);
  void on_membership();  // a view or a peer has come

  const CallPlan& plan() const { return plan_; }
  std::span<const float* const> results() const { return {results_by_entry_.data(), num_entries_}; }
  std::optional<RankId> waits_for() const;  // a rank with a call in flight

 private:
  struct Lane {
    uint64_t sequence = 0;  // 0: free
    Epoch known;            // newest epoch when the call was posted
    std::vector<int> entries;
  };
  std::array<Lane, kNumLanes>& lanes(RankId rank) { return lanes_[rank.value]; }
  bool post_to(const Peer& peer);
  void write_call(const Peer& peer, int lane);
  bool is_answered(const Peer& peer, int lane) const;
  bool copy_out(const Peer& peer, int lane);
  void settle(const Peer& peer, int lane, Epoch callee_newest);
  bool is_refused(size_t index) const { return refused_[index / 64] >> (index % 64) & 1; }
  float* result(int entry) { return results_.get() + static_cast<size_t>(entry) * layout_.hidden; }

  RankId self_;
  Incarnation incarnation_;
  const WindowLayout& layout_;
  OwnWindow own_;
  Membership& membership_;
  ExchangeStats& stats_;
  CallPlan plan_;
  bool is_active_ = false;
  uint64_t last_sequence_ = 0;
  size_t num_entries_ = 0;
  std::vector<std::array<Lane, kNumLanes>> lanes_;     // by rank
  std::vector<std::array<uint64_t, kNumLanes>> late_;  // by rank: last late answer that was counted
  std::vector<uint64_t> refused_;                      // copied bitmap of one answer
  std::vector<int> own_entries_, own_refused_;
  std::unique_ptr<float[]> results_;  // [max_rows * top_k, hidden], untouched until used
  std::vector<const float*> results_by_entry_;
};

}  // namespace fasteep
