#include "engine/rank_link.h"

#include <boost/asio/post.hpp>

namespace fasteep {

using boost::asio::posix::stream_descriptor;

RankLink::RankLink(boost::asio::io_context& loop, ControlConnection connection, Events events)
    : loop_(loop),
      connection_(std::move(connection)),
      waiter_(loop, connection_.fd()),
      events_(std::move(events)) {}

Result<std::shared_ptr<RankLink>> RankLink::open(boost::asio::io_context& loop, Descriptor socket,
                                                 Events events) {
  FASTEEP_TRY(ControlConnection connection, ControlConnection::open(std::move(socket)));
  std::shared_ptr<RankLink> link(new RankLink(loop, std::move(connection), std::move(events)));
  link->wait_to_read();
  return link;
}

void RankLink::close() {
  is_silent_ = true;
  shut();
}

void RankLink::shut() {
  if (is_closed_) return;
  is_closed_ = true;
  waiter_.release();  // pending waits end with operation_aborted
  connection_.shut_down();
}

// From here on the other side is gone as far as anybody is told, once.
void RankLink::break_off(const Error& error) {
  if (is_closed_) return;
  shut();
  boost::asio::post(loop_, [self = shared_from_this(), error] {
    if (!self->is_silent_) self->events_.on_closed(error);
  });
}

void RankLink::wait_to_read() {
  waiter_.async_wait(stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& failed) {
                       if (!failed && !self->is_closed_) self->on_readable();
                     });
}

void RankLink::on_readable() {
  const Result<bool> open = connection_.read();
  if (!open) return break_off(open.error());
  if (!deliver_messages()) return;
  if (!*open) return break_off(make_error(ErrorCode::kPeerLost, "it closed its connection"));
  wait_to_read();
}

bool RankLink::deliver_messages() {
  while (!is_closed_) {
    auto message = connection_.next<api::FromRank>();
    if (!message) {
      break_off(message.error());
      return false;
    }
    if (!message->has_value()) return true;
    events_.on_message(**message);
  }
  return false;
}

void RankLink::send(const api::ToRank& message, std::vector<Descriptor> descriptors) {
  if (is_closed_) return;
  const Result<void> sent = connection_.send(message, std::move(descriptors));
  if (!sent) return break_off(sent.error());
  if (!is_writing_) write();
}

void RankLink::write() {
  const Result<bool> all = connection_.flush();
  is_writing_ = !all || !*all;
  if (!all) return read_last_words(all.error());
  if (is_writing_) wait_to_write();
}

// Writing failed: the rank may have said why before it ended.
void RankLink::read_last_words(const Error& error) {
  boost::asio::post(loop_, [self = shared_from_this(), error] {
    self->drain();
    self->break_off(error);
  });
}

void RankLink::drain() {
  if (is_closed_) return;
  if (connection_.read()) deliver_messages();
}

void RankLink::wait_to_write() {
  waiter_.async_wait(stream_descriptor::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& failed) {
                       if (!failed && !self->is_closed_) self->write();
                     });
}

}  // namespace fasteep
