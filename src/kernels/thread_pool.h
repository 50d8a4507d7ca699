#pragma once
// The compute threads of one rank: the calling thread and `num_threads - 1` workers.
#include <functional>
#include <memory>
#include <span>

namespace fasteep {

// Threads: parallel_for is called by one thread at a time (the rank's step thread), which takes
// part. Workers spin for `spin` after a task, then sleep on a futex; an idle pool uses no CPU.
class ThreadPool {
 public:
  // cpus: where to pin (worker i, the caller is index 0 and is not pinned here); empty: no pinning.
  explicit ThreadPool(int num_threads, std::span<const int> cpus = {}, int spin_us = 50);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls task(thread) once for every thread in [0, num_threads()) and returns when all are done.
  // Results must not depend on which thread does what.
  void run(const std::function<void(int thread)>& task);

  // Splits [0, count) into dynamically taken chunks: body(begin, end, thread).
  void parallel_for(int64_t count, int64_t chunk,
                    const std::function<void(int64_t begin, int64_t end, int thread)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fasteep
