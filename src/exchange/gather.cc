#include "exchange/gather.h"

#include <algorithm>

namespace fasteep {

uint64_t pack(const Progress& progress) {
  return uint64_t{progress.step} << 32 | uint64_t{static_cast<uint8_t>(progress.phase)} << 24 |
         (static_cast<uint32_t>(progress.layer.value + 1) & 0xffffffu);
}

Progress unpack_progress(uint64_t word) {
  const auto phase =
      std::min<uint8_t>(static_cast<uint8_t>(word >> 24), static_cast<uint8_t>(Phase::kCombined));
  return {static_cast<uint32_t>(word >> 32), static_cast<Phase>(phase),
          LayerId(static_cast<int32_t>(word & 0xffffffu) - 1)};
}

bool is_near(const Progress& peer, LayerId layer, LayerId previous, bool has_called) {
  if (has_called) return false;
  switch (peer.phase) {
    case Phase::kIdle:
      return false;
    case Phase::kStarted:
      return previous.value < 0;
    case Phase::kPosting:
      return peer.layer == layer;
    case Phase::kPosted:
    case Phase::kCombined:
      return previous.value >= 0 && peer.layer == previous;
  }
  return false;
}

Duration gather_budget(Duration limit, Duration recent_compute) {
  return std::min(limit, recent_compute / 2);
}

}  // namespace fasteep
