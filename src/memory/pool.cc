#include "memory/pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/log.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1; glibc 2.36 has no name for it
#endif

namespace fasteep {

std::string_view to_string(PoolTag tag) {
  switch (tag) {
    case PoolTag::kReplicated:
      return "replicated";
    case PoolTag::kExperts:
      return "experts";
    case PoolTag::kKv:
      return "kv";
    case PoolTag::kWorkspace:
      return "workspace";
    case PoolTag::kExchange:
      return "exchange";
  }
  return "unknown";
}

namespace {
enum class Slab : uint8_t { kFree, kHuge, kPlain };
constexpr size_t kPageBytes = 4096;

size_t round_up(size_t size) { return (size + kSlabBytes - 1) / kSlabBytes * kSlabBytes; }

// Makes one slab resident. Touching one page and collapsing is ten times cheaper than touching all.
Result<Slab> populate(std::byte* slab) {
  if (madvise(slab, kPageBytes, MADV_POPULATE_WRITE) != 0) return io_error("commit a slab", errno);
  if (madvise(slab, kSlabBytes, MADV_COLLAPSE) == 0) return Slab::kHuge;
  if (madvise(slab, kSlabBytes, MADV_POPULATE_WRITE) != 0) return io_error("commit a slab", errno);
  return Slab::kPlain;
}
}  // namespace

struct MemoryPool::State {
  PoolTag tag{};
  DeviceLedger* ledger = nullptr;
  int fd = -1;
  std::byte* reservation =
      nullptr;                // anonymous, one slab longer than the pool, so that base is aligned
  std::byte* base = nullptr;  // the memfd, PROT_NONE where not committed
  std::vector<Slab> slabs;
  size_t committed = 0;  // slabs
  int plain = 0;

  ~State() {
    if (committed > 0) ledger->give_back(tag, committed * kSlabBytes);
    if (reservation) munmap(reservation, slabs.size() * kSlabBytes + kSlabBytes);
    if (fd >= 0) close(fd);
  }

  Result<void> reserve();
  Result<void> commit_slab(size_t index);
  Result<void> fill(size_t index);
  void release_slab(size_t index);
  void punch(size_t index);
};

Result<void> MemoryPool::State::reserve() {
  const size_t size = slabs.size() * kSlabBytes;
  if (fd < 0) fd = memfd_create("fasteep-pool", MFD_CLOEXEC);
  if (fd < 0) return io_error("memfd_create", errno);
  if (ftruncate(fd, static_cast<off_t>(size)) != 0) return io_error("size a pool", errno);
  void* range = mmap(nullptr, size + kSlabBytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return io_error("reserve address space", errno);
  reservation = static_cast<std::byte*>(range);
  const auto address = reinterpret_cast<uintptr_t>(range);
  std::byte* aligned = reservation + (round_up(address) - address);
  if (mmap(aligned, size, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    return io_error("map a pool", errno);
  }
  base = aligned;
  return {};
}

Result<void> MemoryPool::State::commit_slab(size_t index) {
  if (slabs[index] != Slab::kFree) return {};
  FASTEEP_TRY_VOID(ledger->grant(tag, kSlabBytes));
  auto filled = fill(index);
  if (!filled) ledger->give_back(tag, kSlabBytes);
  return filled;
}

Result<void> MemoryPool::State::fill(size_t index) {
  std::byte* slab = base + index * kSlabBytes;
  if (mprotect(slab, kSlabBytes, PROT_READ | PROT_WRITE) != 0)
    return io_error("commit a slab", errno);
  Result<Slab> kind = populate(slab);
  if (!kind) {
    punch(index);
    return kind.error();
  }
  if (*kind == Slab::kPlain && plain++ == 0) {
    log_info("{}: the kernel gives no huge pages here; plain pages are used", to_string(tag));
  }
  slabs[index] = *kind;
  ++committed;
  return {};
}

// The slab's pages go back to the kernel, its addresses stay.
void MemoryPool::State::punch(size_t index) {
  const auto offset = static_cast<off_t>(index * kSlabBytes);
  std::byte* slab = base + index * kSlabBytes;
  const int failed = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, kSlabBytes);
  CHECK(failed == 0, "punch a hole at {}: errno {}", offset, errno);
  CHECK(mprotect(slab, kSlabBytes, PROT_NONE) == 0, "errno {}", errno);
}

void MemoryPool::State::release_slab(size_t index) {
  if (slabs[index] == Slab::kFree) return;
  punch(index);
  if (slabs[index] == Slab::kPlain) --plain;
  slabs[index] = Slab::kFree;
  --committed;
  ledger->give_back(tag, kSlabBytes);
}

MemoryPool::MemoryPool(std::unique_ptr<State> state) : state_(std::move(state)) {}
MemoryPool::MemoryPool(MemoryPool&&) noexcept = default;
MemoryPool& MemoryPool::operator=(MemoryPool&&) noexcept = default;
MemoryPool::~MemoryPool() = default;

Result<MemoryPool> MemoryPool::create(PoolTag tag, size_t reserve_bytes, DeviceLedger& ledger,
                                      int fd) {
  auto state = std::make_unique<State>();
  state->fd = fd;
  state->tag = tag;
  state->ledger = &ledger;
  state->slabs.resize(std::max<size_t>(1, round_up(reserve_bytes) / kSlabBytes), Slab::kFree);
  auto reserved = state->reserve();
  if (!reserved)
    return reserved.error().with("pool '{}' of {} bytes", to_string(tag), reserve_bytes);
  return MemoryPool(std::move(state));
}

std::byte* MemoryPool::base() const { return state_->base; }
size_t MemoryPool::reserved_bytes() const { return state_->slabs.size() * kSlabBytes; }
size_t MemoryPool::committed_bytes() const { return state_->committed * kSlabBytes; }
PoolTag MemoryPool::tag() const { return state_->tag; }
int MemoryPool::plain_slabs() const { return state_->plain; }

// What was committed before the one that fails stays: the caller may shrink its wish or release.
Result<void> MemoryPool::commit(size_t offset, size_t size) {
  CHECK(offset <= reserved_bytes() && size <= reserved_bytes() - offset, "commit {}+{} of {}",
        offset, size, reserved_bytes());
  if (size == 0) return {};
  for (size_t slab = offset / kSlabBytes; slab < round_up(offset + size) / kSlabBytes; ++slab) {
    FASTEEP_TRY_VOID(state_->commit_slab(slab));
  }
  return {};
}

void MemoryPool::release(size_t offset, size_t size) {
  CHECK(offset <= reserved_bytes() && size <= reserved_bytes() - offset, "release {}+{} of {}",
        offset, size, reserved_bytes());
  const size_t end = (offset + size) / kSlabBytes;
  for (size_t slab = round_up(offset) / kSlabBytes; slab < end; ++slab) state_->release_slab(slab);
}

}  // namespace fasteep
