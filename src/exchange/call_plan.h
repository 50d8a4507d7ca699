#pragma once
// Pure: which entries of a layer call go to which rank, and what to do when a rank refuses or is
// lost. No memory of others, no clock. An entry is one (row, top-k position): entry = row * k + j.
#include <bitset>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/span2.h"
#include "placement/view.h"

namespace fasteep {

// Rules: an entry may be asked of any live replica of a view between the step's own and the newest
// seen. A refusal carries the callee's newest epoch; afterwards only views of that epoch or newer
// count (wait for one if need be), and the refusing rank counts only under views newer than all
// that it or the caller knew when it was called. So refusals cannot go round in circles. Threads:
// one. Nothing allocates after the first few calls.
class CallPlan {
 public:
  explicit CallPlan(RankId self) : self_(self) {}

  // ids: [rows, k] experts. views: from the adopted one to the newest, at least one. live[r]: the
  // incarnation of rank r that can be asked now, 0 if none; self included.
  void start(LayerId layer, Span2<const int32_t> ids, std::span<const ViewPtr> views,
             std::span<const Incarnation> live);

  // Moves up to `limit` queued entries for `rank` into `entries` (replaced): now they are asked.
  // Sorted by expert, whole experts together unless one alone exceeds the limit.
  void take(RankId rank, int limit, std::vector<int>& entries);
  bool has_queued(RankId rank) const { return !queues_[rank.value].empty(); }
  ExpertId expert(int entry) const { return ExpertId(ids_[entry]); }
  int row(int entry) const { return entry / k_; }
  LayerId layer() const { return layer_; }

  void on_answer(int entry);
  // known: the newest epoch that this rank had seen when it posted the call.
  void on_refused(RankId by, int entry, Epoch callee_newest, Epoch known);
  void on_lost(RankId rank);  // what was queued for it or asked of it goes elsewhere
  void on_view(std::span<const ViewPtr> views, std::span<const Incarnation> live);

  bool is_done() const { return num_missing_ == 0; }
  int num_missing() const { return num_missing_; }
  // Entries that no rank can be asked for under any view: the call fails.
  bool is_lost() const { return !lost_.empty(); }
  Error loss() const;           // kPeerLost, names the experts, the layer and the ranks
  Epoch awaited_epoch() const;  // a view that must arrive before parked entries can go on; 0: none

 private:
  enum class Status : uint8_t { kQueued, kAsked, kParked, kDone, kLost };
  struct Refusal {
    ExpertId expert;
    RankId rank;
    Epoch until;  // under views up to this one the rank is not asked again
  };
  void sort_by_expert(int num_experts);
  void set_views(std::span<const ViewPtr> views, std::span<const Incarnation> live);
  void route(int entry);
  std::optional<RankId> choose(int entry) const;
  std::optional<RankId> choose_in(size_t view, int entry) const;
  bool may_ask(size_t view, RankId rank, ExpertId expert) const;

  RankId self_;
  LayerId layer_;
  int k_ = 1;
  int num_missing_ = 0;
  std::span<const int32_t> ids_;                     // by entry
  std::vector<Status> status_;                       // by entry
  std::vector<RankId> target_;                       // by entry
  std::vector<int> order_;                           // entries, by expert
  std::vector<int> expert_start_;                    // scratch of the sort
  std::vector<Epoch> need_;                          // by expert: oldest epoch that counts
  std::vector<std::vector<int>> queues_{kMaxRanks};  // by rank
  std::vector<const View*> views_;
  std::vector<std::bitset<kMaxRanks>> live_;  // by view: members that can be asked
  std::vector<Refusal> refusals_;
  std::vector<int> lost_;  // entries
};

}  // namespace fasteep
