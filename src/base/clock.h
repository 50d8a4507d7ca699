#pragma once
// Time comes in by the door: code takes a Clock&, and only clock.cc asks the system.
#include <chrono>

namespace fasteep {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

// The machine's monotonic clock. Any thread.
const Clock& system_clock();

// A clock that tests move by hand. One thread.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{};
};

// Wall-clock seconds since 1970, for `created` fields. Any thread.
int64_t unix_time_s();

inline double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace fasteep
