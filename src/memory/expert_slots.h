#pragma once
// The slots of one rank: places for one expert's packed weights each, and the table that says which
// expert lies where. The table is the truth when a call is served: held or refused.
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "memory/pool.h"

namespace fasteep {

// Threads: the rank's serving (step) thread only. Loading may write a slot that is not published
// yet.
class ExpertSlots {
 public:
  // slot_bytes: ffn_size_bytes of the model; all slots' address range is reserved now.
  // fd: as in MemoryPool::create.
  static Result<ExpertSlots> create(int num_slots, size_t slot_bytes, DeviceLedger& ledger,
                                    int fd = -1);

  int num_slots() const;
  int num_free() const;
  size_t slot_bytes() const;
  size_t committed_bytes() const;

  // Takes a free slot and commits its pages; it holds nothing until publish(). Error kExhausted.
  Result<SlotId> acquire();
  void give_back(SlotId slot);  // an acquired slot that was never published
  std::byte* data(SlotId slot);
  size_t offset(SlotId slot) const;          // in the pool, for who reads it through the descriptor
  void publish(SlotId slot, ExpertKey key);  // now calls find it. The key must not be held yet.
  void withdraw(ExpertKey key);  // calls are refused from now on; the slot is free again
  const std::byte* find(ExpertKey key) const;  // weights, or nullptr: refuse
  std::optional<SlotId> slot_of(ExpertKey key) const;
  std::vector<ExpertKey> held() const;
  const std::byte* base() const { return pool_.base(); }  // stays the same for life

 private:
  ExpertSlots(MemoryPool pool, int num_slots, size_t slot_bytes);
  void release_pages(SlotId slot);
  std::pair<size_t, size_t> slabs(SlotId slot) const;  // [first, last) that the slot lies in

  MemoryPool pool_;
  size_t slot_bytes_;
  std::vector<std::optional<ExpertKey>> keys_;  // by slot: what it holds
  std::vector<bool> taken_;                     // by slot
  std::vector<int> users_;                      // by slab: slots that keep it committed
  std::unordered_map<uint64_t, SlotId> index_;  // packed key -> slot
};

}  // namespace fasteep
