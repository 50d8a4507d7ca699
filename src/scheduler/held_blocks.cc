#include "scheduler/held_blocks.h"

#include <utility>

#include "base/check.h"

namespace fasteep {

// A request that was preempted may have come to other blocks of the same content: the peer may
// still read the old ones.
void HeldBlocks::share(RequestId id, std::span<const BlockId> blocks, BlockManager& manager) {
  std::vector<BlockId>& shared = shared_[id];
  const std::unordered_set<BlockId> known(shared.begin(), shared.end());
  for (const BlockId block : blocks) {
    if (known.contains(block)) continue;
    manager.retain(block);
    shared.push_back(block);
  }
}

void HeldBlocks::end_share(RequestId id, BlockManager& manager) { let_go(shared_, id, manager); }

std::vector<BlockId> HeldBlocks::reserve(RequestId id, int num_blocks, BlockManager& manager) {
  std::vector<BlockId> added;
  for (int i = 0; i < num_blocks; ++i) added.push_back(manager.allocate());
  std::vector<BlockId>& reserved = reserved_[id];
  reserved.insert(reserved.end(), added.begin(), added.end());
  return added;
}

std::span<const BlockId> HeldBlocks::reservation(RequestId id) const {
  const auto found = reserved_.find(id);
  return found == reserved_.end() ? std::span<const BlockId>() : found->second;
}

std::vector<BlockId> HeldBlocks::take_reservation(RequestId id, int num_blocks,
                                                  BlockManager& manager) {
  const auto found = reserved_.find(id);
  CHECK(found != reserved_.end() && std::ssize(found->second) >= num_blocks,
        "{} blocks are not reserved for request {}", num_blocks, id);
  std::vector<BlockId> taken = std::move(found->second);
  reserved_.erase(found);
  for (; std::ssize(taken) > num_blocks; taken.pop_back()) manager.release(taken.back());
  return taken;
}

void HeldBlocks::drop_reservation(RequestId id, BlockManager& manager) {
  let_go(reserved_, id, manager);
}

// Later blocks first, as a sequence does.
void HeldBlocks::let_go(Holdings& holdings, RequestId id, BlockManager& manager) {
  const auto found = holdings.find(id);
  if (found == holdings.end()) return;
  for (size_t i = found->second.size(); i-- > 0;) manager.release(found->second[i]);
  holdings.erase(found);
}

void HeldBlocks::add_to(std::unordered_set<BlockId>& blocks) const {
  for (const Holdings* holdings : {&shared_, &reserved_})
    for (const auto& [id, held] : *holdings) blocks.insert(held.begin(), held.end());
}

}  // namespace fasteep
