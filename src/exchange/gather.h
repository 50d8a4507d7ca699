#pragma once
// Pure: is it worth waiting for a peer's call before computing a layer? Each expert's weights are
// read once per computation, so calls for one layer that are about to come should share it.
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/ids.h"

namespace fasteep {

enum class Phase : uint8_t {
  kIdle,      // in no step, and none is about to begin
  kStarted,   // in a step, before its first MoE layer
  kPosting,   // in run_layer, calls of `layer` not all posted
  kPosted,    // all calls of `layer` are posted; waits for answers and serves
  kCombined,  // done with `layer`: on the way to the next MoE layer
};

// What a rank tells its peers about its step, in one atomic word of its window.
struct Progress {
  uint32_t step = 0;
  Phase phase = Phase::kIdle;
  LayerId layer{-1};
  bool operator==(const Progress&) const = default;
};
uint64_t pack(const Progress& progress);
Progress unpack_progress(uint64_t word);  // any word: the peer's memory is not trusted

// How many MoE layers a peer is behind one that is about to compute the `at`-th of `layers`, going
// round from the last layer to the first of the next step; 0: its next call is for this very layer.
// Nothing for a peer between steps.
std::optional<int> layers_behind(const Progress& peer, std::span<const LayerId> layers, int at);

// Whether it is worth to wait for that peer. has_called: its call for this layer lies here already.
// may_catch_up: this rank is in a step itself, so that waiting lets a peer catch up that is behind
// by less than half of the layers. Ranks that have drifted apart would stay so, and compute every
// layer twice.
bool is_near(std::optional<int> behind, int num_layers, bool has_called, bool may_catch_up);

// How long it is worth to wait. Shared computations pay for the waits before them: each saves about
// half of a computation; a rank whose waits are in vain stops waiting, but for a small share of its
// time. Threads: one.
class GatherBudget {
 public:
  // limit: longest wait at a time.
  explicit GatherBudget(Duration limit);

  // Now, of one wait: never longer than half of what a computation takes lately, so that small
  // models do not lose by it.
  Duration left(TimePoint now);
  void on_waited(Duration waited);
  void on_computed(Duration took, bool shared);

 private:
  Duration most() const;

  Duration limit_;
  Duration recent_;  // running mean over computations
  Duration credit_;
  TimePoint last_{};
};

}  // namespace fasteep
