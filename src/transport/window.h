#pragma once
// A window: shared memory that one rank writes and its peers map read-only. What lies behind the
// header is the user's business (exchange/window_layout.h).
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/result.h"
#include "transport/descriptor.h"

namespace fasteep {

// Starts every window. Written by the owner only; a peer must distrust every word of it.
struct WindowHeader {
  std::atomic<uint64_t> magic;  // written last: 0 until the owner has opened its window
  std::atomic<uint32_t> version;
  std::atomic<int32_t> rank;
  std::atomic<uint32_t> incarnation;
  std::atomic<uint64_t> size_bytes;
  alignas(64) std::atomic<uint32_t> sleeping;  // doorbell.h
  std::atomic<uint32_t> closed;                // 1: the owner ends and answers nothing any more
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");

struct WindowIdentity {
  uint32_t version = 0;  // of the layout behind the header
  RankId rank;
  Incarnation incarnation;
};

// For the controller: a zero-filled memfd of fixed size (sealed against shrinking, so that no peer
// can be killed by SIGBUS; holes may still be punched). Pages exist once touched.
Result<int> create_window_fd(size_t size_bytes);
// A second descriptor of the same memory through which nobody can write.
Result<int> reopen_read_only(int fd);

// Threads: the memory from any; moving and destruction from one.
class Window {
 public:
  // The owner's mapping: writes the header. Error kInvalidInput when the size does not match.
  static Result<Window> open_own(Descriptor fd, size_t size_bytes, const WindowIdentity& identity);
  // A peer's mapping, read-only. Errors: kInvalidInput for another size or a memfd that can shrink.
  static Result<Window> open_peer(Descriptor fd, size_t size_bytes, const WindowIdentity& expected);

  Window(Window&& other) noexcept;
  Window& operator=(Window&& other) noexcept;
  ~Window();

  // False while the owner has not opened it yet. Error kInvalidInput: it is somebody else's window,
  // or of another layout version.
  Result<bool> is_open() const;

  const WindowHeader& header() const { return *reinterpret_cast<const WindowHeader*>(base_); }
  const std::byte* data() const { return base_; }
  WindowHeader& own_header();
  std::byte* own_data();  // of the owner's mapping only
  size_t size_bytes() const { return size_bytes_; }

 private:
  Window(std::byte* base, size_t size_bytes, const WindowIdentity& identity, bool is_own)
      : base_(base), size_bytes_(size_bytes), identity_(identity), is_own_(is_own) {}
  std::byte* base_ = nullptr;
  size_t size_bytes_ = 0;
  WindowIdentity identity_;
  bool is_own_ = false;
};

}  // namespace fasteep
