#include "memory/expert_slots.h"

#include <algorithm>

namespace fasteep {
namespace {
constexpr size_t kSlotAlignment = 64;

uint64_t packed(ExpertKey key) {
  return uint64_t{static_cast<uint32_t>(key.layer.value)} << 32 |
         static_cast<uint32_t>(key.expert.value);
}
}  // namespace

ExpertSlots::ExpertSlots(MemoryPool pool, int num_slots, size_t slot_bytes)
    : pool_(std::move(pool)),
      slot_bytes_(slot_bytes),
      keys_(num_slots),
      taken_(num_slots, false),
      users_(pool_.reserved_bytes() / kSlabBytes, 0) {
  index_.reserve(num_slots);
}

Result<ExpertSlots> ExpertSlots::create(int num_slots, size_t slot_bytes, DeviceLedger& ledger,
                                        int fd) {
  CHECK(num_slots >= 0 && slot_bytes > 0, "{} slots of {} bytes", num_slots, slot_bytes);
  slot_bytes = (slot_bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  FASTEEP_TRY(MemoryPool pool,
              MemoryPool::create(PoolTag::kExperts, num_slots * slot_bytes, ledger, fd));
  return ExpertSlots(std::move(pool), num_slots, slot_bytes);
}

int ExpertSlots::num_slots() const { return static_cast<int>(keys_.size()); }
int ExpertSlots::num_free() const {
  return static_cast<int>(std::count(taken_.begin(), taken_.end(), false));
}
size_t ExpertSlots::slot_bytes() const { return slot_bytes_; }
size_t ExpertSlots::committed_bytes() const { return pool_.committed_bytes(); }

std::pair<size_t, size_t> ExpertSlots::slabs(SlotId slot) const {
  const size_t begin = slot.value * slot_bytes_;
  return {begin / kSlabBytes, (begin + slot_bytes_ + kSlabBytes - 1) / kSlabBytes};
}

Result<SlotId> ExpertSlots::acquire() {
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  if (free == taken_.end()) {
    return make_error(ErrorCode::kExhausted, "all {} expert slots are taken", num_slots());
  }
  const SlotId slot(static_cast<int>(free - taken_.begin()));
  const auto [first, last] = slabs(slot);
  for (size_t slab = first; slab < last; ++slab) ++users_[slab];
  taken_[slot.value] = true;
  auto committed = pool_.commit(slot.value * slot_bytes_, slot_bytes_);
  if (!committed) {
    give_back(slot);
    return committed.error().with("expert slot {} of {}", slot, num_slots());
  }
  return slot;
}

void ExpertSlots::give_back(SlotId slot) {
  CHECK(taken_.at(slot.value) && !keys_[slot.value], "slot {} is free or published", slot);
  taken_[slot.value] = false;
  release_pages(slot);
}

// Neighbours share a slab where slots are not whole slabs: the last user gives it back.
void ExpertSlots::release_pages(SlotId slot) {
  const auto [first, last] = slabs(slot);
  for (size_t slab = first; slab < last; ++slab) {
    if (--users_[slab] == 0) pool_.release(slab * kSlabBytes, kSlabBytes);
  }
}

std::byte* ExpertSlots::data(SlotId slot) {
  CHECK(taken_.at(slot.value), "slot {} is free", slot);
  return pool_.base() + slot.value * slot_bytes_;
}

size_t ExpertSlots::offset(SlotId slot) const { return slot.value * slot_bytes_; }

void ExpertSlots::publish(SlotId slot, ExpertKey key) {
  CHECK(taken_.at(slot.value) && !keys_[slot.value], "slot {} is free or published", slot);
  const bool is_new = index_.emplace(packed(key), slot).second;
  CHECK(is_new, "expert {} of layer {} is held already", key.expert, key.layer);
  keys_[slot.value] = key;
}

void ExpertSlots::withdraw(ExpertKey key) {
  const auto found = index_.find(packed(key));
  CHECK(found != index_.end(), "expert {} of layer {} is not held", key.expert, key.layer);
  const SlotId slot = found->second;
  index_.erase(found);
  keys_[slot.value].reset();
  give_back(slot);
}

const std::byte* ExpertSlots::find(ExpertKey key) const {
  const auto found = index_.find(packed(key));
  return found == index_.end() ? nullptr : pool_.base() + found->second.value * slot_bytes_;
}

std::optional<SlotId> ExpertSlots::slot_of(ExpertKey key) const {
  const auto found = index_.find(packed(key));
  if (found == index_.end()) return std::nullopt;
  return found->second;
}

std::vector<ExpertKey> ExpertSlots::held() const {
  std::vector<ExpertKey> held;
  for (const auto& key : keys_) {
    if (key) held.push_back(*key);
  }
  std::sort(held.begin(), held.end());
  return held;
}

}  // namespace fasteep
