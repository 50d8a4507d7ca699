#include "memory/ledger.h"

#include "base/settings_table.h"
#include "memory/pool.h"

namespace fasteep {

DeviceLedger::DeviceLedger(size_t capacity_bytes) : capacity_(capacity_bytes) {}

Result<void> DeviceLedger::grant(PoolTag tag, size_t size_bytes) {
  if (size_bytes > free_bytes()) {
    return make_error(ErrorCode::kExhausted,
                      "{} needs {} more, {} of {} free: raise --device-memory", to_string(tag),
                      format_bytes(size_bytes), format_bytes(free_bytes()),
                      format_bytes(capacity_));
  }
  granted_[static_cast<size_t>(tag)] += size_bytes;
  return {};
}

void DeviceLedger::give_back(PoolTag tag, size_t size_bytes) {
  size_t& granted = granted_[static_cast<size_t>(tag)];
  CHECK(size_bytes <= granted, "{} gives back {} bytes of {}", to_string(tag), size_bytes, granted);
  granted -= size_bytes;
}

size_t DeviceLedger::granted(PoolTag tag) const { return granted_[static_cast<size_t>(tag)]; }

size_t DeviceLedger::free_bytes() const {
  size_t sum = 0;
  for (size_t bytes : granted_) sum += bytes;
  return capacity_ - sum;
}

}  // namespace fasteep
