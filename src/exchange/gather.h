#pragma once
// Pure: is it worth waiting for a peer's call before computing a layer? Each expert's weights are
// read once per computation, so calls for one layer that are about to come should share it.
#include <cstdint>

#include "base/clock.h"
#include "base/ids.h"

namespace fasteep {

enum class Phase : uint8_t {
  kIdle,      // between steps
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

// Whether a peer with this progress may soon call for `layer`. previous: the MoE layer before it,
// or -1. has_called: its call for this layer lies here already.
bool is_near(const Progress& peer, LayerId layer, LayerId previous, bool has_called);

// How long to wait at most: never longer than half of what a computation takes lately, so that
// small models do not lose by it.
Duration gather_budget(Duration limit, Duration recent_compute);

}  // namespace fasteep
