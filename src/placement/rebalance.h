#pragma once
// Pure: from one view to the next with the fewest moves, and what lies between two views.
#include <cstdint>
#include <optional>
#include <vector>

#include "placement/placement.h"

namespace fasteep {

// Rows that each expert was given of late: [moe layers * num_experts], or empty: all alike.
using ExpertLoad = std::vector<uint64_t>;

// The view that follows `current` when the members become `members` (others may leave, stay or
// join; a member with a new incarnation holds nothing yet). Every layer is spread evenly: members'
// slots differ by at most one in a layer and in all, and no expert is moved that need not be.
// Redundant replicas (options', at most what the ranks can hold) go to the experts with most load;
// shares follow it too. The result is a function of its arguments alone.
// Errors: kInvalidInput with the numbers.
Result<View> next_view(Epoch epoch, const View& current, std::vector<Member> members,
                       const PlacementOptions& options, const ExpertLoad& load = {});

// The same replicas, with traffic shares that level the ranks' load as far as replicas allow.
Result<View> with_shares(Epoch epoch, const View& current, const ExpertLoad& load);

struct ExpertMove {
  ExpertKey key;
  std::optional<RankId> from;  // a rank of the view before; none: the checkpoint
  RankId to;
  bool operator==(const ExpertMove&) const = default;
};

struct ExpertDrop {
  RankId rank;
  ExpertKey key;
  bool operator==(const ExpertDrop&) const = default;
};

// What must be filled before `after` can be published. Sources are spread over the replicas of
// `before` (nullptr: nothing is held yet, all comes from the checkpoint). By receiving rank, then
// key.
std::vector<ExpertMove> moves_between(const View* before, const View& after);
// What `after` has no use for any more, of all ranks of `before`. By rank, then key.
std::vector<ExpertDrop> drops_between(const View& before, const View& after);

// Slots in use on the fullest rank of a view, over all layers.
int most_slots(const View& view);
// The fewest ranks that hold all experts (one replica each) with `max_slots` slots a rank; 0: none
// up to kMaxRanks do.
int smallest_num_ranks(int num_moe_layers, int num_experts, int max_slots);

}  // namespace fasteep
