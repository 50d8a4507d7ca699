#pragma once
// Ids are types, not ints: a rank cannot be passed where an expert is meant.
#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <functional>

namespace fasteep {

template <class Tag, class Value>
struct Id {
  Value value{};
  constexpr Id() = default;
  constexpr explicit Id(Value v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
};

using RankId = Id<struct RankTag, int32_t>;  // 0-based, < max EP size
using Incarnation =
    Id<struct IncarnationTag, uint32_t>;         // tells a restarted rank from the dead one; >= 1
using Epoch = Id<struct EpochTag, uint64_t>;     // a view's number; the first view is 1
using LayerId = Id<struct LayerTag, int32_t>;    // 0-based transformer layer
using ExpertId = Id<struct ExpertTag, int32_t>;  // 0-based within its layer
using SlotId = Id<struct SlotTag, int32_t>;      // place for one expert's weights on one rank
using BlockId = Id<struct BlockTag, int32_t>;    // KV block of one rank
using RequestId =
    Id<struct RequestTag, uint64_t>;  // unique in an instance, given by the controller

struct ExpertKey {  // one logical expert of the model
  LayerId layer;
  ExpertId expert;
  auto operator<=>(const ExpertKey&) const = default;
};

inline constexpr int kMaxRanks = 127;  // of an instance: rank ids are below it

using TokenId = int32_t;  // a vocabulary index; plain, because it is arithmetic's daily bread

}  // namespace fasteep

template <class Tag, class Value>
struct std::hash<fasteep::Id<Tag, Value>> {
  size_t operator()(const fasteep::Id<Tag, Value>& id) const noexcept {
    return std::hash<Value>()(id.value);
  }
};

template <class Tag, class Value>
struct fmt::formatter<fasteep::Id<Tag, Value>> : fmt::formatter<Value> {
  template <class Context>
  auto format(const fasteep::Id<Tag, Value>& id, Context& context) const {
    return fmt::formatter<Value>::format(id.value, context);
  }
};
