#include "transport/window.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace fasteep {
namespace {
constexpr uint64_t kMagic = 0x776f646e69574546;  // "FEWindow"

Result<void> check_size(int fd, size_t size_bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0) return io_error("window: fstat", errno);
  if (static_cast<size_t>(info.st_size) != size_bytes) {
    return invalid_input("window of {} bytes, expected {}: all ranks need the same options",
                         info.st_size, size_bytes);
  }
  return {};
}

Result<std::byte*> map(int fd, size_t size_bytes, int protection) {
  void* base = mmap(nullptr, size_bytes, protection, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return io_error("map a window", errno);
  return static_cast<std::byte*>(base);
}

void write_header(WindowHeader& header, size_t size_bytes, const WindowIdentity& identity) {
  header.version.store(identity.version, std::memory_order_relaxed);
  header.rank.store(identity.rank.value, std::memory_order_relaxed);
  header.incarnation.store(identity.incarnation.value, std::memory_order_relaxed);
  header.size_bytes.store(size_bytes, std::memory_order_relaxed);
  header.magic.store(kMagic, std::memory_order_release);
}
}  // namespace

Result<int> create_window_fd(size_t size_bytes) {
  Descriptor fd(memfd_create("fasteep-window", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0) return io_error("memfd_create", errno);
  if (ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0)
    return io_error("size a window", errno);
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return io_error("seal a window", errno);
  }
  return fd.release();
}

Result<int> reopen_read_only(int fd) {
  const int reopened = open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC);
  if (reopened < 0) return io_error("reopen a window read-only", errno);
  return reopened;
}

Result<Window> Window::open_own(Descriptor fd, size_t size_bytes, const WindowIdentity& identity) {
  FASTEEP_TRY_VOID(check_size(fd.get(), size_bytes));
  FASTEEP_TRY(std::byte * base, map(fd.get(), size_bytes, PROT_READ | PROT_WRITE));
  Window window(base, size_bytes, identity, true);
  write_header(window.own_header(), size_bytes, identity);
  return window;
}

Result<Window> Window::open_peer(Descriptor fd, size_t size_bytes, const WindowIdentity& expected) {
  FASTEEP_TRY_VOID(check_size(fd.get(), size_bytes));
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK)) {
    return invalid_input("the window of rank {} can shrink: make it by create_window_fd",
                         expected.rank);
  }
  FASTEEP_TRY(std::byte * base, map(fd.get(), size_bytes, PROT_READ));
  Window window(base, size_bytes, expected, false);
  auto open = window.is_open();
  if (!open) return open.error();
  return window;
}

Window::Window(Window&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      size_bytes_(other.size_bytes_),
      identity_(other.identity_),
      is_own_(other.is_own_) {}

Window& Window::operator=(Window&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(identity_, other.identity_);
  std::swap(is_own_, other.is_own_);
  return *this;
}

Window::~Window() {
  if (base_) munmap(base_, size_bytes_);
}

Result<bool> Window::is_open() const {
  const uint64_t magic = header().magic.load(std::memory_order_acquire);
  if (magic == 0) return false;
  const uint32_t version = header().version.load(std::memory_order_relaxed);
  const int32_t rank = header().rank.load(std::memory_order_relaxed);
  const uint32_t incarnation = header().incarnation.load(std::memory_order_relaxed);
  const uint64_t size = header().size_bytes.load(std::memory_order_relaxed);
  if (magic == kMagic && version == identity_.version && rank == identity_.rank.value &&
      incarnation == identity_.incarnation.value && size == size_bytes_) {
    return true;
  }
  return invalid_input(
      "the window of rank {} (incarnation {}, layout {}, {} bytes) says magic {:x}, rank {}, "
      "incarnation {}, layout {}, {} bytes: run one version of FastEEP",
      identity_.rank, identity_.incarnation, identity_.version, size_bytes_, magic, rank,
      incarnation, version, size);
}

WindowHeader& Window::own_header() { return *reinterpret_cast<WindowHeader*>(own_data()); }

std::byte* Window::own_data() {
  CHECK(is_own_, "the window of rank {} is a peer's", identity_.rank);
  return base_;
}

}  // namespace fasteep
