#pragma once
// Blocks that requests on the move keep busy beside what sequences hold: shared ones, which a peer
// copies from, and reserved ones, which copies from a peer come into.
#include <map>
#include <span>
#include <unordered_set>
#include <vector>

#include "scheduler/block_manager.h"

namespace fasteep {

// Threads: the scheduler's. Holds one reference to each block until it is let go.
class HeldBlocks {
 public:
  bool empty() const { return shared_.empty() && reserved_.empty(); }

  // Those of `blocks` that the request does not share yet.
  void share(RequestId id, std::span<const BlockId> blocks, BlockManager& manager);
  void end_share(RequestId id, BlockManager& manager);

  // Allocates `num_blocks` more, which must be available, and returns them.
  std::vector<BlockId> reserve(RequestId id, int num_blocks, BlockManager& manager);
  std::span<const BlockId> reservation(RequestId id) const;  // empty if there is none
  // Its first num_blocks with their references; the others are free, the reservation is over.
  std::vector<BlockId> take_reservation(RequestId id, int num_blocks, BlockManager& manager);
  void drop_reservation(RequestId id, BlockManager& manager);

  void add_to(std::unordered_set<BlockId>& blocks) const;

 private:
  using Holdings = std::map<RequestId, std::vector<BlockId>>;  // in order of positions
  static void let_go(Holdings& holdings, RequestId id, BlockManager& manager);

  Holdings shared_, reserved_;
};

}  // namespace fasteep
