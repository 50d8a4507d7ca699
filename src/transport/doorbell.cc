#include "transport/doorbell.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace fasteep {
namespace {
void ring(int doorbell_fd) {
  const uint64_t one = 1;
  // EAGAIN means that the counter is full: the sleeper is about to wake anyway.
  [[maybe_unused]] const ssize_t written = write(doorbell_fd, &one, sizeof(one));
}

timespec to_timespec(Duration timeout) {
  const auto ns = std::max<int64_t>(0, timeout.count());
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}
}  // namespace

Result<int> create_doorbell() {
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) return io_error("eventfd", errno);
  return fd;
}

void fence_before_ringing() { std::atomic_thread_fence(std::memory_order_seq_cst); }

void ring_for_work(const WindowHeader& sleeper, int doorbell_fd) {
  const uint32_t reason = sleeper.sleeping.load(std::memory_order_relaxed);
  if (reason != static_cast<uint32_t>(Sleep::kAwake)) ring(doorbell_fd);
}

void ring_for_progress(const WindowHeader& sleeper, int doorbell_fd) {
  const uint32_t reason = sleeper.sleeping.load(std::memory_order_relaxed);
  if (reason == static_cast<uint32_t>(Sleep::kForProgress)) ring(doorbell_fd);
}

Woken Sleeper::poll_descriptors(int control_fd, Duration timeout) {
  pollfd fds[2] = {{doorbell_.get(), POLLIN, 0}, {control_fd, POLLIN, 0}};
  const timespec limit = to_timespec(timeout);
  const int ready = ppoll(fds, control_fd >= 0 ? 2 : 1, &limit, nullptr);
  CHECK(ready >= 0 || errno == EINTR, "ppoll: errno {}", errno);
  Woken woken{.slept = true};
  if (ready <= 0) return woken;
  uint64_t count = 0;
  if (fds[0].revents & POLLIN) {
    [[maybe_unused]] const ssize_t taken = read(doorbell_.get(), &count, sizeof(count));
  }
  woken.control = fds[1].revents != 0;
  return woken;
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

}  // namespace fasteep
