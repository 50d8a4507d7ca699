#pragma once
// The callee's side: reads calls out of peers' windows, refuses what is not held, answers in the
// own window. Nothing that a peer writes is trusted: a bad call is dropped, never a crash.
#include <optional>
#include <vector>

#include "exchange/expert_batch.h"
#include "exchange/membership.h"
#include "exchange/window_layout.h"

namespace fasteep {

// Threads: the rank's step thread.
class ExpertService {
 public:
  ExpertService(const ExchangeOptions& options, const WindowLayout& layout, OwnWindow own,
                Membership& membership, ExchangeStats& stats);

  bool has_call() const { return next_layer().has_value(); }
  bool has_call(const Peer& peer, LayerId layer) const;
  // Of some call that waits; not `except`.
  std::optional<LayerId> next_layer(LayerId except = LayerId(-1)) const;

  // Adds the entries of all calls for batch.layer() that wait. Their answers become invalid now and
  // are published, after batch.run(), by publish(). Returns the number of calls.
  int join(ExpertBatch& batch);
  void publish();
  // Nobody may mistake an answer to a former incarnation of this rank for one to the present.
  void forget(RankId caller);

 private:
  struct Answer {
    Peer* peer;
    int lane;
    uint64_t sequence;
  };
  bool is_waiting(const Peer& peer, int lane) const;
  void read_call(Peer& peer, int lane, ExpertBatch& batch);
  bool is_well_formed(int num_entries, int num_experts) const;
  void prepare_answer(const Peer& peer, int lane, ExpertBatch& batch);

  RankId self_;
  Incarnation incarnation_;
  const WindowLayout& layout_;
  OwnWindow own_;
  Membership& membership_;
  ExchangeStats& stats_;
  std::vector<CallEntry> entries_;  // of the call being read
  std::vector<Answer> answers_;     // prepared, not published
};

}  // namespace fasteep
