#pragma once
// Address-stable memory by tag: a pool reserves its greatest range once and commits or releases
// physical pages in place. Packed weights and KV blocks keep their addresses over any number of
// sleeps.
#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "memory/ledger.h"

namespace fasteep {

enum class PoolTag { kReplicated, kExperts, kKv, kWorkspace, kExchange };
inline constexpr int kNumPoolTags = 5;
std::string_view to_string(PoolTag tag);  // "replicated", "experts", ...

inline constexpr size_t kSlabBytes = size_t{2} << 20;  // commit and release happen in whole slabs

// Threads: commit and release from one thread; the memory itself from any.
class MemoryPool {
 public:
  // Reserves `reserve_bytes` (rounded up to slabs) of address space; no physical page yet.
  // Pages are a memfd's, made huge by MADV_COLLAPSE where the kernel can. fd: an empty memfd that
  // is taken over, so that peers can read the pool through a descriptor of theirs; -1: its own.
  static Result<MemoryPool> create(PoolTag tag, size_t reserve_bytes, DeviceLedger& ledger,
                                   int fd = -1);
  MemoryPool(MemoryPool&&) noexcept;
  MemoryPool& operator=(MemoryPool&&) noexcept;
  ~MemoryPool();

  std::byte* base() const;
  size_t reserved_bytes() const;
  size_t committed_bytes() const;
  PoolTag tag() const;
  // Committed slabs that the kernel would not make huge: slower to touch and to release. Logged
  // once.
  int plain_slabs() const;

  // Makes [offset, offset + size) usable (zero-filled where new). Idempotent per slab. Errors:
  // kExhausted with the ledger's numbers, or the kernel's refusal.
  Result<void> commit(size_t offset, size_t size);
  // Gives whole slabs inside [offset, offset + size) back to the kernel and the ledger.
  void release(size_t offset, size_t size);

 private:
  struct State;
  explicit MemoryPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fasteep
