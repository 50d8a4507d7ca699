#pragma once
// A thread for long bodies, so that parsing and tokenising them does not hold up streams.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "server/async_event.h"

namespace fasteep {

class TextPool {
 public:
  explicit TextPool(boost::asio::any_io_executor executor)
      : executor_(std::move(executor)), pool_(1) {}
  // What has not begun never runs; its waiters are never woken.
  ~TextPool() { join(); }
  void join() {
    pool_.stop();
    pool_.join();
  }

  // Runs `work` on the pool's thread and resumes on the executor's. What `work` refers to must live
  // until join(), for the waiting coroutine may be destroyed meanwhile.
  template <class T>
  boost::asio::awaitable<Result<T>> run(std::function<Result<T>()> work) {
    // Shared by the coroutine and the pool's task: either may end first.
    auto task = std::make_shared<Task<T>>(executor_, std::move(work));
    boost::asio::post(pool_, [task, executor = executor_]() mutable {
      task->result = guarded(task->work);
      boost::asio::post(executor, [task = std::move(task)] {
        task->is_done = true;
        task->done.notify();
      });
    });
    while (!task->is_done) co_await task->done.wait_until(system_clock().now() + kWakeUp);
    co_return std::move(*task->result);
  }

  // The same here and now; exceptions of the libraries beneath become errors.
  template <class T>
  static Result<T> guarded(const std::function<Result<T>()>& work) {
    try {
      return work();
    } catch (const std::exception& error) {
      return make_error(ErrorCode::kIo, "the request could not be read: {}", error.what());
    }
  }

 private:
  static constexpr Duration kWakeUp = std::chrono::hours(1);  // waits have deadlines; it may go on

  template <class T>
  struct Task {
    Task(const boost::asio::any_io_executor& executor, std::function<Result<T>()> todo)
        : work(std::move(todo)), done(executor) {}
    const std::function<Result<T>()> work;
    std::optional<Result<T>> result;  // the pool's until is_done
    bool is_done = false;
    AsyncEvent done;
  };

  boost::asio::any_io_executor executor_;
  boost::asio::thread_pool pool_;
};

}  // namespace fasteep
