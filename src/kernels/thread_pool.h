#pragma once
// The compute threads of one rank: the calling thread and `num_threads - 1` workers.
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace fasteep {

// A callable that the caller keeps alive for the call: unlike std::function it never allocates, and
// nothing may allocate in a decode step.
template <class Signature>
class FunctionRef;
template <class... Args>
class FunctionRef<void(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>) FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) {
          (*static_cast<std::remove_reference_t<F>*>(object))(args...);
        }) {}
  void operator()(Args... args) const { call_(object_, args...); }

 private:
  void* object_;
  void (*call_)(void*, Args...);
};

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
  void run(FunctionRef<void(int thread)> task);

  // Splits [0, count) into dynamically taken chunks: body(begin, end, thread).
  void parallel_for(int64_t count, int64_t chunk,
                    FunctionRef<void(int64_t begin, int64_t end, int thread)> body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fasteep
