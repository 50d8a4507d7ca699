#include "placement/view.h"

#include <algorithm>

namespace fasteep {
namespace {

Result<void> check_members(std::span<const Member> members) {
  if (members.empty()) return invalid_input("a view needs at least one member");
  for (size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    if (member.rank.value < 0) return invalid_input("rank {} is negative", member.rank);
    if (member.incarnation.value == 0)
      return invalid_input("rank {} has incarnation 0; incarnations start at 1", member.rank);
    if (i > 0 && members[i - 1].rank == member.rank)
      return invalid_input("rank {} is a member twice", member.rank);
  }
  return {};
}

Result<void> check_shape(const ModelShape& shape) {
  if (shape.moe_layers.empty()) return invalid_input("the model has no MoE layer");
  if (shape.num_experts < 1)
    return invalid_input("the model has {} experts per MoE layer", shape.num_experts);
  if (shape.moe_layers.front().value < 0)
    return invalid_input("MoE layer {} is negative", shape.moe_layers.front());
  const auto unordered = std::adjacent_find(shape.moe_layers.begin(), shape.moe_layers.end(),
                                            [](LayerId a, LayerId b) { return a >= b; });
  if (unordered != shape.moe_layers.end())
    return invalid_input("MoE layers do not increase: {} then {}", *unordered, *(unordered + 1));
  return {};
}

bool is_rank_of(std::span<const Member> members, RankId rank) {
  return std::binary_search(members.begin(), members.end(), Member{rank, {}},
                            [](const Member& a, const Member& b) { return a.rank < b.rank; });
}

// The replicas of one expert: what is wrong with them, or nothing.
Result<void> check_replicas(std::span<const Replica> replicas, std::span<const Member> members) {
  if (replicas.empty()) return invalid_input("no replica");
  for (size_t i = 0; i < replicas.size(); ++i) {
    const RankId rank = replicas[i].rank;
    if (!is_rank_of(members, rank))
      return invalid_input("a replica on rank {}, which is no member", rank);
    if (replicas[i].share == 0) return invalid_input("traffic share 0 on rank {}", rank);
    for (size_t j = 0; j < i; ++j)
      if (replicas[j].rank == rank) return invalid_input("two replicas on rank {}", rank);
  }
  return {};
}

Result<void> check_table(const std::vector<std::vector<Replica>>& table, const ModelShape& shape,
                         std::span<const Member> members) {
  const size_t num_experts = static_cast<size_t>(shape.num_experts);
  if (table.size() != shape.moe_layers.size() * num_experts)
    return invalid_input("replicas of {} experts given, the model has {} MoE layers of {}",
                         table.size(), shape.moe_layers.size(), num_experts);
  for (size_t i = 0; i < table.size(); ++i) {
    const Result<void> good = check_replicas(table[i], members);
    if (!good)
      return good.error().with("layer {} expert {}", shape.moe_layers[i / num_experts],
                               i % num_experts);
  }
  return {};
}

std::vector<int> index_layers(std::span<const LayerId> layers) {
  std::vector<int> index(static_cast<size_t>(layers.back().value) + 1, -1);
  for (size_t i = 0; i < layers.size(); ++i)
    index[static_cast<size_t>(layers[i].value)] = static_cast<int>(i);
  return index;
}

}  // namespace

Result<View> View::create(Epoch epoch, std::vector<Member> members, ModelShape shape,
                          std::vector<std::vector<Replica>> replicas) {
  if (epoch.value == 0) return invalid_input("epoch 0; the first view's is 1");
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.rank < b.rank; });
  FASTEEP_TRY_VOID(check_members(members));
  FASTEEP_TRY_VOID(check_shape(shape));
  FASTEEP_TRY_VOID(check_table(replicas, shape, members));
  View view;
  view.epoch_ = epoch;
  view.members_ = std::move(members);
  view.layer_index_ = index_layers(shape.moe_layers);
  view.shape_ = std::move(shape);
  view.replicas_ = std::move(replicas);
  return view;
}

bool View::is_member(RankId rank, Incarnation incarnation) const {
  return std::find(members_.begin(), members_.end(), Member{rank, incarnation}) != members_.end();
}

std::span<const Replica> View::replicas(LayerId layer, ExpertId expert) const {
  const size_t row = static_cast<size_t>(layer.value);
  CHECK(layer.value >= 0 && row < layer_index_.size() && layer_index_[row] >= 0,
        "layer {} is no MoE layer", layer);
  CHECK(expert.value >= 0 && expert.value < shape_.num_experts, "expert {} of {}", expert,
        shape_.num_experts);
  return replicas_[static_cast<size_t>(layer_index_[row] * shape_.num_experts + expert.value)];
}

std::vector<std::pair<LayerId, ExpertId>> View::experts_of(RankId rank) const {
  std::vector<std::pair<LayerId, ExpertId>> experts;
  for (const LayerId layer : shape_.moe_layers)
    for (int e = 0; e < shape_.num_experts; ++e)
      for (const Replica& replica : replicas(layer, ExpertId(e)))
        if (replica.rank == rank) experts.emplace_back(layer, ExpertId(e));
  return experts;
}

}  // namespace fasteep
