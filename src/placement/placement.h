#pragma once
// Pure: members + model + budget -> view. (Load, incremental moves and N_min join in here.)
#include "placement/view.h"

namespace fasteep {

struct PlacementOptions {
  int num_redundant_experts = 0;  // extra replicas per MoE layer, over all ranks
};

// Slots each rank needs per MoE layer and in all, for `num_ranks` ranks: experts + redundant ones
// spread evenly, rounded up.
int slots_per_layer(int num_experts, int num_redundant_experts, int num_ranks);

// The first view. Experts are dealt round-robin, each layer going on at the rank where the one
// before stopped, so that uneven remainders spread; the redundant replicas go to the ranks with the
// fewest slots used in the layer, never beside a replica of the same expert. Any number of ranks
// from 1 up to 127; it need not divide the experts. Errors: kInvalidInput with the numbers.
Result<View> initial_view(Epoch epoch, std::vector<Member> members, ModelShape shape,
                          const PlacementOptions& options);

}  // namespace fasteep
