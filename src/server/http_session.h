#pragma once
// One connection: requests one after the other, answers whole or as server-sent events.
#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "server/async_event.h"
#include "server/http_message.h"
#include "server/server_options.h"
#include "server/session_registry.h"

namespace fasteep {

// What answers requests (router.h).
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Looks at the header before the body is read; a reply refuses the request.
  virtual std::optional<HttpReply> refuse(const http::request_header<>& header) const = 0;
  // Answers by session.send(), or by begin_events() ... end_events().
  virtual boost::asio::awaitable<void> handle(HttpRequest& request, HttpSession& session) = 0;
};

// Threads: the executor's one. Shared by its coroutine and its pending read, which end at different
// times.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  struct Context {
    HttpTimeouts timeouts;
    int64_t max_body_bytes;
    std::shared_ptr<HttpHandler> handler;       // shared: sessions may outlive the server object
    std::shared_ptr<SessionRegistry> registry;  // the same
  };

  HttpSession(boost::asio::ip::tcp::socket socket, const Context& context);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  static void start(std::shared_ptr<HttpSession> session);

  // For handlers. Writes that fail, or take longer than the timeout, close the connection.
  boost::asio::awaitable<void> send(HttpReply reply);
  boost::asio::awaitable<void> begin_events();
  boost::asio::awaitable<void> write_events(
      std::string_view text);  // `text` lives until it returns
  boost::asio::awaitable<void> end_events();
  // The body is no longer needed: its memory may go to other requests.
  void release_body();
  bool is_closed() const { return closed_; }
  boost::asio::any_io_executor executor() { return socket_.get_executor(); }

  // Closes the connection now; a CloseWatch hears of it.
  void abort();
  // The same from a place that must not be called back (a stream of the engine).
  void abort_soon();
  void begin_drain();

 private:
  friend class CloseWatch;
  using Parser = http::request_parser<http::string_body>;

  static boost::asio::awaitable<void> run_shared(std::shared_ptr<HttpSession> session);
  boost::asio::awaitable<void> run();
  boost::asio::awaitable<bool> wait_for_request();
  boost::asio::awaitable<bool> read_header();
  boost::asio::awaitable<bool> read_body();
  boost::asio::awaitable<bool> begin_body();
  boost::asio::awaitable<void> serve();
  boost::asio::awaitable<bool> fill(TimePoint deadline);
  boost::asio::awaitable<void> linger();
  boost::asio::awaitable<void> refuse(HttpReply reply);
  boost::asio::awaitable<void> refuse_malformed(boost::system::error_code ec);
  boost::asio::awaitable<void> refuse_unfinished();
  template <class Buffers>
  boost::asio::awaitable<void> write(Buffers buffers);

  boost::system::error_code feed_parser();
  bool take_body_bytes(int64_t total);
  void start_read();
  void on_read(boost::system::error_code ec, size_t size);
  void watch(std::function<void()> on_close);
  std::string head(int status, std::string_view content_type) const;

  boost::asio::ip::tcp::socket socket_;
  const Context context_;
  boost::asio::steady_timer write_deadline_;
  AsyncEvent readable_;           // input_ has grown, or the connection has ended
  std::array<char, 8192> piece_;  // where a pending read writes
  std::string input_;             // received and not parsed
  std::optional<Parser> parser_;
  HttpRequest request_;
  std::string request_id_;  // the client's X-Request-Id, echoed
  int64_t body_bytes_ = 0;  // taken from the registry's bound
  TimePoint idle_deadline_{};
  std::function<void()> on_close_;
  int num_served_ = 0;
  bool reading_ = false;    // a read is pending
  bool at_end_ = false;     // the client will send nothing more
  bool timed_out_ = false;  // of the last fill()
  bool idle_ = false;       // between requests
  bool keep_alive_ = true;
  bool must_linger_ = false;  // unread input is on its way: read it, or the answer is lost
  bool replied_ = false;
  bool is_head_ = false;
  bool chunked_ = true;
  bool closed_ = false;
};

// While it lives, a connection that the client closes is noticed at once, even with nothing to
// write: `on_close` is called, and the session is closed.
class CloseWatch {
 public:
  CloseWatch(HttpSession& session, std::function<void()> on_close) : session_(session) {
    session_.watch(std::move(on_close));
  }
  ~CloseWatch() { session_.on_close_ = nullptr; }
  CloseWatch(const CloseWatch&) = delete;
  CloseWatch& operator=(const CloseWatch&) = delete;

 private:
  HttpSession& session_;
};

}  // namespace fasteep
