#pragma once
// A view: which ranks are active and which of them hold each expert. Immutable once published.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace fasteep {

struct Member {
  RankId rank;
  Incarnation incarnation;
  bool operator==(const Member&) const = default;
};

struct Replica {
  RankId rank;
  uint16_t share =
      1;  // weight of this replica in the traffic of its expert, relative to the others
  bool operator==(const Replica&) const = default;
};

struct ModelShape {                 // of the experts: every MoE layer has the same number
  std::vector<LayerId> moe_layers;  // increasing
  int num_experts = 0;              // logical experts per MoE layer
};

// Threads: immutable, shared by pointer between the control and step parts of a rank.
class View {
 public:
  // replicas[i * num_experts + e]: of expert e in moe_layers[i], at least one, ranks distinct and
  // members.
  static Result<View> create(Epoch epoch, std::vector<Member> members, ModelShape shape,
                             std::vector<std::vector<Replica>> replicas);

  Epoch epoch() const { return epoch_; }
  std::span<const Member> members() const { return members_; }  // increasing rank
  bool is_member(RankId rank, Incarnation incarnation) const;
  const ModelShape& shape() const { return shape_; }
  std::span<const Replica> replicas(LayerId layer, ExpertId expert) const;
  // What a rank must hold: (layer, expert), by layer then expert.
  std::vector<std::pair<LayerId, ExpertId>> experts_of(RankId rank) const;

 private:
  View() = default;
  Epoch epoch_;
  std::vector<Member> members_;
  ModelShape shape_;
  std::vector<int> layer_index_;  // of a LayerId in moe_layers, -1 if dense
  std::vector<std::vector<Replica>> replicas_;
};

using ViewPtr =
    std::shared_ptr<const View>;  // owners: every step still using it, and the newest pointer

}  // namespace fasteep
