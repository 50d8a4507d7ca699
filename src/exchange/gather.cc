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

std::optional<int> layers_behind(const Progress& peer, std::span<const LayerId> layers, int at) {
  if (peer.phase == Phase::kIdle) return std::nullopt;
  int next = 0;  // MoE layer of its next call
  if (peer.phase != Phase::kStarted) {
    const auto found = std::ranges::lower_bound(layers, peer.layer);
    if (found == layers.end() || *found != peer.layer) return std::nullopt;
    next = static_cast<int>(found - layers.begin()) + (peer.phase == Phase::kPosting ? 0 : 1);
  }
  const int num_layers = static_cast<int>(layers.size());
  return (at - next + num_layers) % num_layers;
}

bool is_near(std::optional<int> behind, int num_layers, bool has_called, bool may_catch_up) {
  if (!behind || has_called) return false;
  return *behind == 0 || (may_catch_up && 2 * *behind < num_layers);
}

namespace {
constexpr int kWaitsInAdvance = 32;  // of half a computation each
constexpr int kIdleShare = 50;       // one part in so many of the time may be waited in vain
}  // namespace

GatherBudget::GatherBudget(Duration limit) : limit_(limit), recent_(2 * limit), credit_(most()) {}

Duration GatherBudget::most() const { return recent_ / 2 * kWaitsInAdvance; }

Duration GatherBudget::left(TimePoint now) {
  if (last_ != TimePoint{}) credit_ += (now - last_) / kIdleShare;
  last_ = now;
  credit_ = std::min(credit_, most());
  return std::max(Duration::zero(), std::min({limit_, recent_ / 2, credit_}));
}

void GatherBudget::on_waited(Duration waited) { credit_ -= waited; }

void GatherBudget::on_computed(Duration took, bool shared) {
  recent_ = (recent_ * 7 + took) / 8;
  if (shared) credit_ += recent_ / 2;
}

}  // namespace fasteep
