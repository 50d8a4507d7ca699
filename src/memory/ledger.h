#pragma once
// Grants bytes of one device (a host's memory share of one rank, for now) to pools by tag. Nothing
// is committed without a grant; the grants sum to at most the capacity, always.
#include <array>
#include <cstddef>

#include "base/result.h"

namespace fasteep {

enum class PoolTag;

// Threads: the owner's thread only.
class DeviceLedger {
 public:
  explicit DeviceLedger(size_t capacity_bytes);
  // Error kExhausted: "experts needs 3.1 GiB more, 1.0 GiB of 8.0 GiB free: raise --device-memory".
  Result<void> grant(PoolTag tag, size_t size_bytes);
  void give_back(PoolTag tag, size_t size_bytes);
  size_t capacity() const { return capacity_; }
  size_t granted(PoolTag tag) const;
  size_t free_bytes() const;

 private:
  size_t capacity_;
  std::array<size_t, 8> granted_{};
};

}  // namespace fasteep
