#include "kernels/probe.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "kernels/kernel_table.h"
#include "kernels/thread_pool.h"

namespace fasteep {

namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

// Anonymous memory in huge pages, touched once.
class HugeBuffer {
 public:
  explicit HugeBuffer(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(data_ != MAP_FAILED, "mapping {} bytes for the probe: {}", bytes, strerror(errno));
    madvise(data_, bytes,
            MADV_HUGEPAGE);  // slower pages if refused, and then that is what is measured
    std::memset(data_, 1, bytes);
  }
  ~HugeBuffer() { munmap(data_, bytes_); }
  HugeBuffer(const HugeBuffer&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

// Work per second of the best of `repeats` runs of task on all threads.
template <class Task>
double best_rate(ThreadPool& pool, int repeats, double work, const Task& task) {
  double best = 0;
  for (int i = 0; i < repeats; ++i) {
    const TimePoint start = system_clock().now();
    pool.run(task);
    best = std::max(best, work / seconds(system_clock().now() - start));
  }
  return best;
}

using Vector = long long __attribute__((vector_size(16), aligned(16)));

// Reads all of [data, data + bytes) at a few independent accumulators' pace.
void read_all(const std::byte* data, size_t bytes) {
  const auto* p = reinterpret_cast<const Vector*>(data);
  Vector a{}, b{}, c{}, d{};
  for (size_t i = 0; i + 4 <= bytes / sizeof(Vector); i += 4) {
    a += p[i];
    b += p[i + 1];
    c += p[i + 2];
    d += p[i + 3];
  }
  a += b + c + d;
  asm volatile("" : : "x"(a));
}

double measure_read(ThreadPool& pool, const HugeBuffer& buffer) {
  const size_t share = buffer.size() / pool.num_threads() / 64 * 64;
  return best_rate(pool, 4, static_cast<double>(share) * pool.num_threads(),
                   [&](int thread) { read_all(buffer.data() + share * thread, share); });
}

double measure_copy(ThreadPool& pool, const HugeBuffer& buffer) {
  const size_t half = buffer.size() / 2;
  const size_t share = half / pool.num_threads() / 64 * 64;
  return best_rate(pool, 2, static_cast<double>(share) * pool.num_threads(), [&](int thread) {
    std::memcpy(buffer.data() + share * thread, buffer.data() + half + share * thread, share);
  });
}

double measure_flops(ThreadPool& pool, DType dtype, Isa isa) {
  constexpr int kSteps = 100000;
  const auto burst = kernel_table(isa).multiply_add_burst[static_cast<size_t>(dtype)];
  const double flops = 2 * burst(1, 0.5f) * kSteps * pool.num_threads();
  return best_rate(pool, 6, flops, [&](int) { burst(kSteps, 0.5f); });
}

double measure_ping_pong() {
  constexpr uint32_t kRounds = 20000;
  if (std::thread::hardware_concurrency() < 2) return 0;  // two spinning threads would never meet
  ThreadPool pool(2);
  alignas(64) std::atomic<uint32_t> ball{0};
  const double rate = best_rate(pool, 3, kRounds, [&](int thread) {
    if (thread == 0) ball.store(0);
    for (uint32_t i = 0; i < kRounds; ++i) {
      const uint32_t mine = 2 * i + static_cast<uint32_t>(thread);
      // A late second thread must not see the last run's ball: its first turn is ball 1.
      while (ball.load(std::memory_order_acquire) != mine) __builtin_ia32_pause();
      ball.store(mine + 1, std::memory_order_release);
    }
  });
  return 1e9 / rate;
}

}  // namespace

MachineProbe probe_machine(int threads, DType dtype, Isa isa) {
  ThreadPool pool(threads);
  MachineProbe probe;
  {
    const HugeBuffer buffer(512 * kMegabyte);
    probe.read_bytes_per_s = measure_read(pool, buffer);
    probe.copy_bytes_per_s = measure_copy(pool, buffer);
  }
  probe.flops_per_s = measure_flops(pool, dtype, isa);
  probe.ping_pong_ns = measure_ping_pong();
  return probe;
}

}  // namespace fasteep
