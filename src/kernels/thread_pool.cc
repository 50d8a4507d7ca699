#include "kernels/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace fasteep {

namespace {

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr,
          nullptr, 0);
}

// A word that one side changes and the other waits for: it spins a while, then sleeps.
struct Doorbell {
  std::atomic<uint32_t> word{0};
  std::atomic<uint32_t> sleepers{0};

  // Returns once `done(word)` holds. Sequentially consistent: either the waker sees the sleeper, or
  // the kernel sees the new word and does not put it to sleep.
  template <class Done>
  void wait(Duration spin, Done done) {
    if (done(word.load()) || spin_for(spin, done)) return;
    sleepers.fetch_add(1);
    for (uint32_t seen = word.load(); !done(seen); seen = word.load()) futex_wait(word, seen);
    sleepers.fetch_sub(1);
  }
  void wake() {
    if (sleepers.load() > 0) futex_wake(word, INT_MAX);
  }

 private:
  template <class Done>
  bool spin_for(Duration spin, Done done) {
    constexpr int kLooksPerClock = 64;
    if (spin <= Duration::zero()) return false;
    const TimePoint deadline = system_clock().now() + spin;
    do {
      for (int i = 0; i < kLooksPerClock; ++i) {
        if (done(word.load(std::memory_order_acquire))) return true;
        __builtin_ia32_pause();
      }
    } while (system_clock().now() < deadline);
    return false;
  }
};

void pin(std::thread& thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  const int error = pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
  CHECK(error == 0, "pinning a compute thread to CPU {}: {}", cpu, strerror(error));
}

}  // namespace

struct ThreadPool::State {
  int num_threads = 1;
  Duration spin{};
  const FunctionRef<void(int)>* task = nullptr;  // written before `started` changes
  bool stop = false;                             // likewise
  alignas(64) Doorbell started;                  // counts tasks
  alignas(64) Doorbell running;                  // workers still in the task
  std::vector<std::thread> workers;

  void work(int thread) {
    for (uint32_t seen = 0;; ++seen) {
      started.wait(spin, [seen](uint32_t word) { return word != seen; });
      if (stop) return;
      (*task)(thread);
      if (running.word.fetch_sub(1) == 1) running.wake();
    }
  }
};

ThreadPool::ThreadPool(int num_threads, std::span<const int> cpus, int spin_us)
    : state_(std::make_unique<State>()) {
  CHECK(num_threads >= 1, "a pool of {} threads", num_threads);
  state_->num_threads = num_threads;
  state_->spin = std::chrono::microseconds(spin_us);
  for (int i = 1; i < num_threads; ++i) {
    state_->workers.emplace_back([state = state_.get(), i] { state->work(i); });
    if (static_cast<size_t>(i) < cpus.size()) pin(state_->workers.back(), cpus[i]);
  }
}

ThreadPool::~ThreadPool() {
  state_->stop = true;
  state_->started.word.fetch_add(1);
  state_->started.wake();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::num_threads() const { return state_->num_threads; }

void ThreadPool::run(FunctionRef<void(int thread)> task) {
  State& s = *state_;
  if (s.num_threads == 1) return task(0);
  s.task = &task;
  s.running.word.store(static_cast<uint32_t>(s.num_threads - 1));
  s.started.word.fetch_add(1);
  s.started.wake();
  task(0);
  s.running.wait(s.spin, [](uint32_t left) { return left == 0; });
}

void ThreadPool::parallel_for(int64_t count, int64_t chunk,
                              FunctionRef<void(int64_t begin, int64_t end, int thread)> body) {
  CHECK(chunk >= 1, "parallel_for in chunks of {}", chunk);
  std::atomic<int64_t> next{0};
  const auto take_chunks = [&next, body, count, chunk](int thread) {
    for (;;) {
      const int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= count) return;
      body(begin, std::min(begin + chunk, count), thread);
    }
  };
  if (state_->num_threads == 1 || count <= chunk) return take_chunks(0);
  run(take_chunks);
}

}  // namespace fasteep
