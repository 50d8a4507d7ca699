#include "base/clock.h"

namespace fasteep {
namespace {
class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};
}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

int64_t unix_time_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace fasteep
