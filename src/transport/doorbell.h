#pragma once
// Sleeping and waking without a lost wake-up and without system calls while both sides are busy.
//
// The sleeper raises a flag in its own window, looks once more at everything that could have
// arrived, and only then polls. The ringer publishes first, fences, and looks at the flag. Either
// the sleeper sees what was published or the ringer sees the flag (both fences are sequentially
// consistent).
#include <atomic>
#include <functional>

#include "base/clock.h"
#include "base/result.h"
#include "transport/descriptor.h"
#include "transport/window.h"

namespace fasteep {

// Why a rank sleeps; the values of WindowHeader::sleeping.
enum class Sleep : uint32_t {
  kAwake = 0,
  kForWork = 1,      // wake me for what is addressed to me
  kForProgress = 2,  // wake me for any progress of yours, too
};

// For the controller: a doorbell is a non-blocking eventfd.
Result<int> create_doorbell();

// Wakes the window's owner if it sleeps. Call after publishing; `fence_before_ringing` comes
// between (one fence serves several ringings).
void fence_before_ringing();
void ring_for_work(const WindowHeader& sleeper, int doorbell_fd);
void ring_for_progress(const WindowHeader& sleeper, int doorbell_fd);

struct Woken {
  bool slept = false;    // false: there was something before sleep began
  bool control = false;  // control_fd is readable or closed
};

// The owner's side. Threads: the owner's step thread. `flag` outlives it.
class Sleeper {
 public:
  Sleeper(Descriptor doorbell, std::atomic<uint32_t>& flag)
      : doorbell_(std::move(doorbell)), flag_(&flag) {}
  // Sleeps until rung, control_fd (-1: none) is readable, or `timeout` has passed. Does not sleep
  // if there_is_something() after the flag is up.
  template <class Predicate>
  Woken sleep(Sleep reason, int control_fd, Duration timeout, Predicate&& there_is_something) {
    flag_->store(static_cast<uint32_t>(reason), std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Woken woken;
    if (!there_is_something()) woken = poll_descriptors(control_fd, timeout);
    flag_->store(static_cast<uint32_t>(Sleep::kAwake), std::memory_order_relaxed);
    return woken;
  }

 private:
  Woken poll_descriptors(int control_fd, Duration timeout);
  Descriptor doorbell_;
  std::atomic<uint32_t>* flag_;
};

// Whether fd is readable or closed, at once.
bool is_readable(int fd);

}  // namespace fasteep
