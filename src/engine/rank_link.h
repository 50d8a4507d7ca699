#pragma once
// The controller's end of a rank's control connection, under asio.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>

#include "rank/api.pb.h"
#include "rank/control_connection.h"

namespace fasteep {

// Threads: the io_context's. Shared with its own pending handlers, which may outlive the owner's
// interest: after close() nothing is called any more.
class RankLink : public std::enable_shared_from_this<RankLink> {
 public:
  struct Events {
    std::function<void(const api::FromRank&)> on_message;
    // The rank's end is closed or broken; nothing comes after it. Never called from inside send().
    std::function<void(const Error&)> on_closed;
  };
  static Result<std::shared_ptr<RankLink>> open(boost::asio::io_context& loop, Descriptor socket,
                                                Events events);

  void send(const api::ToRank& message, std::vector<Descriptor> descriptors = {});
  void drain();  // delivers what has arrived, now
  void close();  // no event comes any more

 private:
  RankLink(boost::asio::io_context& loop, ControlConnection connection, Events events);
  void wait_to_read();
  void wait_to_write();
  void on_readable();
  bool deliver_messages();  // false: closed meanwhile
  void write();
  void read_last_words(const Error& error);
  void shut();
  void break_off(const Error& error);

  boost::asio::io_context& loop_;
  ControlConnection connection_;
  boost::asio::posix::stream_descriptor waiter_;  // of the same descriptor; released, never closed
  Events events_;
  bool is_writing_ = false;
  bool is_closed_ = false;
  bool is_silent_ = false;
};

}  // namespace fasteep
