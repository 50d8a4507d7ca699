#pragma once
// Accepts connections.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http_session.h"

namespace fasteep {

// Threads: the io_context's. Shared by the server and its pending accept.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  // Errors: kUnavailable for a port in use, kInvalidInput for an unknown host, kIo.
  static Result<std::shared_ptr<Listener>> create(boost::asio::io_context& io,
                                                  const std::string& host, int port,
                                                  HttpSession::Context context);

  void start() { accept(); }
  void stop();
  int port() const { return port_; }

 private:
  using Tcp = boost::asio::ip::tcp;
  Listener(Tcp::acceptor acceptor, HttpSession::Context context);
  void accept();
  void on_accept(boost::system::error_code ec, Tcp::socket socket);
  void retry_later();

  Tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  const HttpSession::Context context_;
  const int port_;
};

}  // namespace fasteep
