#pragma once
// Pure: whether a resize is possible, and everything it will do. A start of the instance is a
// resize from nothing; a failure will be one that nobody asked for.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "placement/rebalance.h"

namespace fasteep {

enum class RankState { kActive, kShadow };  // of a live process; no process: absent

struct RankInfo {
  Member member;
  RankState state = RankState::kActive;
  int kv_blocks = 0;         // usable now
  int kv_blocks_needed = 0;  // that its live requests may come to need
};

// Slots and KV blocks share one budget on each rank.
struct RankBudget {
  size_t bytes = 0;  // for slots and KV together
  size_t slot_bytes = 1, block_bytes = 1;
  int min_kv_blocks = 1;  // one longest sequence
  int max_kv_blocks = 1;  // more addresses are not reserved
};

// KV blocks beside `num_slots` slots, memory rounded to whole slabs; less than min_kv_blocks: too
// many slots.
int kv_blocks_beside(const RankBudget& budget, int num_slots);
// The most slots that leave room for min_kv_blocks.
int max_slots(const RankBudget& budget);

struct InstanceState {
  ViewPtr view;      // the newest; nullptr: nothing runs yet
  Epoch last_epoch;  // the highest number ever used, also for views that were never published
  ModelShape shape;  // of the experts
  std::vector<RankInfo> ranks;                // live processes, by rank
  std::map<RankId, Incarnation> incarnation;  // the last one used of each rank id ever started
  int max_ranks = 1;                          // ids that may be given out
  PlacementOptions placement;
  RankBudget budget;
  size_t replicated_bytes = 0;  // copied to each rank that wakes
  size_t rank_bytes = 0;        // that an active rank takes of the host, all tags
  size_t host_bytes = 0;        // that the host can still give
  double copy_bytes_per_s = 0;  // for the estimate; 0: unknown
};

struct ResizeRequest {
  std::optional<int> target;  // active ranks in the end; or by name:
  std::vector<RankId> retire, add;
  bool rebalance = false;    // the same members, experts placed by load
  bool is_blocking = false;  // with all ranks paused, as rebuild-style systems do it
  bool keep_shadows = true;  // retired ranks become shadows, else they exit
  ExpertLoad load;
};

struct Joiner {
  Member member;
  bool needs_process = false;  // else it is a shadow
};

struct ResizePlan {
  ViewPtr before, after;  // before: nullptr at the start of the instance
  std::vector<Joiner> joiners;
  std::vector<RankId> leavers;
  std::vector<ExpertMove> moves;
  std::vector<ExpertDrop> drops;  // of ranks that stay
  // Usable blocks of each rank of `after`: while old and new slots lie side by side, and then.
  std::map<RankId, int> kv_blocks_during, kv_blocks_after;
  std::map<RankId, int> kv_blocks_before;  // to go back to
  bool is_blocking = false, keep_shadows = true;
  size_t expert_bytes = 0, replicated_bytes = 0;  // to be copied
  double estimated_s = 0;                         // 0: unknown
};

// Errors, in words that say which target would work: kInvalidInput (absurd target, unknown or
// repeated ranks, nothing to do is no error), kExhausted (slots, KV of live requests, host memory).
// A plan without joiners, leavers and moves has nothing to do.
Result<ResizePlan> plan_resize(const InstanceState& state, const ResizeRequest& request);
// `num_ranks` new ranks 0, 1, ... and, beside them, shadows up to `num_processes`.
Result<ResizePlan> plan_start(const InstanceState& state, int num_ranks);

struct FeasibleSizes {
  int smallest = 1, largest = 1;
};
FeasibleSizes feasible_sizes(const InstanceState& state);

}  // namespace fasteep
