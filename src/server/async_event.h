#pragma once
// A coroutine waits, a callback of the same thread wakes it.
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/clock.h"

namespace fasteep {

// Threads: the executor's one. At most one waiter.
class AsyncEvent {
 public:
  explicit AsyncEvent(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  void notify() {
    notified_ = true;
    timer_.cancel();
  }

  // Returns at the next notify(), or at once if there was one since the last wait; false: the time
  // came first.
  boost::asio::awaitable<bool> wait_until(TimePoint deadline) {
    if (!notified_) {
      boost::system::error_code ignored;  // cancelled or expired: notified_ tells
      timer_.expires_at(deadline);
      co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
    }
    co_return std::exchange(notified_, false);
  }

 private:
  boost::asio::steady_timer timer_;
  bool notified_ = false;
};

}  // namespace fasteep
