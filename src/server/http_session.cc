#include "server/http_session.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

#include "base/log.h"

namespace fasteep {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr uint32_t kMaxHeaderBytes = 16 << 10;
// Read ahead of a running request at most; a client that sends more is watched by writes alone.
constexpr size_t kMaxReadAheadBytes = 64 << 10;
constexpr int64_t kMaxLingerBytes =
    128 << 20;  // of a refused body; a client that sends more is cut off

bool expects_continue(const http::request_header<>& header) {
  return boost::beast::iequals(header[http::field::expect], "100-continue");
}

}  // namespace

HttpSession::HttpSession(asio::ip::tcp::socket socket, const Context& context)
    : socket_(std::move(socket)),
      context_(context),
      write_deadline_(socket_.get_executor()),
      readable_(socket_.get_executor()) {
  context_.registry->add(this);
}

HttpSession::~HttpSession() {
  release_body();
  context_.registry->remove(this);
}

void HttpSession::start(std::shared_ptr<HttpSession> session) {
  const auto executor = session->executor();
  asio::co_spawn(executor, run_shared(std::move(session)), [](std::exception_ptr failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      log_error("a connection ended with: {}", error.what());
    }
  });
}

asio::awaitable<void> HttpSession::run_shared(std::shared_ptr<HttpSession> session) {
  co_await session->run();
}

asio::awaitable<void> HttpSession::run() {
  while (!closed_ && keep_alive_) {
    bool go_on = co_await wait_for_request();
    if (!go_on) break;
    go_on = co_await read_header();
    if (go_on) go_on = co_await read_body();
    if (go_on) co_await serve();
    release_body();
    if (context_.registry->is_draining()) keep_alive_ = false;
  }
  if (must_linger_) co_await linger();
  abort();
}

asio::awaitable<bool> HttpSession::wait_for_request() {
  idle_ = true;
  idle_deadline_ = system_clock().now() + context_.timeouts.idle;
  if (context_.registry->is_draining()) begin_drain();
  while (input_.empty() && !at_end_ && !closed_) {
    start_read();
    const bool woken = co_await readable_.wait_until(idle_deadline_);
    if (!woken) break;
  }
  idle_ = false;
  co_return !input_.empty() && !closed_;
}

// keep_alive_ is false after a refusal that leaves the connection unusable, and the request is then
// answered; true with a false return means: answered, and the next request may follow.
asio::awaitable<bool> HttpSession::read_header() {
  parser_.emplace();
  parser_->header_limit(kMaxHeaderBytes);
  parser_->body_limit(static_cast<uint64_t>(context_.max_body_bytes));
  replied_ = false;
  request_id_.clear();
  const TimePoint deadline = system_clock().now() + context_.timeouts.header;
  while (!parser_->is_header_done()) {
    const error_code ec = feed_parser();
    if (ec && ec != http::error::need_more) {
      co_await refuse_malformed(ec);
      co_return false;
    }
    if (parser_->is_header_done()) break;
    const bool more = co_await fill(deadline);
    if (more) continue;
    co_await refuse_unfinished();
    co_return false;
  }
  const auto& header = parser_->get();
  is_head_ = header.method() == http::verb::head;
  keep_alive_ = parser_->keep_alive();
  chunked_ = header.version() >= 11;
  request_id_ = std::string(header["X-Request-Id"]);
  std::optional<HttpReply> refusal = context_.handler->refuse(header);
  if (!refusal) co_return true;
  if (parser_->is_done()) {
    co_await send(std::move(*refusal));
  } else {
    co_await refuse(std::move(*refusal));
  }
  co_return false;
}

// What stands between the header and the body.
asio::awaitable<bool> HttpSession::begin_body() {
  const auto length = parser_->content_length();
  if (length && !take_body_bytes(static_cast<int64_t>(*length))) {
    co_await refuse(error_reply(503, "too many request bodies at a time: try again in a second"));
    co_return false;
  }
  if (expects_continue(parser_->get()) && !parser_->is_done()) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await write(asio::buffer(kContinue));
  }
  co_return !closed_;
}

asio::awaitable<bool> HttpSession::read_body() {
  const bool may_begin = co_await begin_body();
  if (!may_begin) co_return false;
  while (!parser_->is_done()) {
    const error_code ec = input_.empty() ? http::error::need_more : feed_parser();
    if (ec && ec != http::error::need_more) {
      co_await refuse_malformed(ec);
      co_return false;
    }
    if (!take_body_bytes(static_cast<int64_t>(parser_->get().body().size()))) {
      co_await refuse(error_reply(503, "too many request bodies at a time: try again in a second"));
      co_return false;
    }
    if (parser_->is_done() || (!ec && !input_.empty())) continue;
    const bool more = co_await fill(system_clock().now() + context_.timeouts.body);
    if (more) continue;
    co_await refuse_unfinished();
    co_return false;
  }
  co_return true;
}

asio::awaitable<void> HttpSession::serve() {
  request_ = parser_->release();
  bool failed = false;
  try {
    co_await context_.handler->handle(request_, *this);
  } catch (const std::exception& error) {
    log_error("{} {}: {}", std::string(request_.method_string()), std::string(request_.target()),
              error.what());
    failed = true;
  }
  if (!replied_) co_await send(error_reply(500, "internal error: see the server's log"));
  if (failed) keep_alive_ = false;  // perhaps in the middle of a stream
  ++num_served_;
}

error_code HttpSession::feed_parser() {
  error_code ec;
  const size_t used = parser_->put(asio::buffer(input_), ec);
  input_.erase(0, used);
  return ec;
}

bool HttpSession::take_body_bytes(int64_t total) {
  const int64_t more = total - body_bytes_;
  if (more <= 0) return true;
  if (!context_.registry->take_body_bytes(more)) return false;
  body_bytes_ = total;
  return true;
}

void HttpSession::release_body() {
  std::string().swap(request_.body());
  context_.registry->give_body_bytes(std::exchange(body_bytes_, 0));
}

// Waits until input_ has more. False: end, error or timeout.
asio::awaitable<bool> HttpSession::fill(TimePoint deadline) {
  timed_out_ = false;
  const size_t before = input_.size();
  while (input_.size() == before && !at_end_ && !closed_) {
    start_read();
    const bool woken = co_await readable_.wait_until(deadline);
    if (!woken && input_.size() == before) {
      timed_out_ = true;
      co_return false;
    }
  }
  co_return input_.size() > before && !closed_;
}

void HttpSession::start_read() {
  if (reading_ || at_end_ || closed_) return;
  reading_ = true;
  socket_.async_read_some(
      asio::buffer(piece_),
      [self = shared_from_this()](error_code ec, size_t size) { self->on_read(ec, size); });
}

void HttpSession::on_read(error_code ec, size_t size) {
  reading_ = false;
  input_.append(piece_.data(), size);
  if (ec) at_end_ = true;
  if (on_close_) {
    if (at_end_) {
      abort();
    } else if (input_.size() < kMaxReadAheadBytes) {
      start_read();
    }
  }
  readable_.notify();
}

void HttpSession::watch(std::function<void()> on_close) {
  on_close_ = std::move(on_close);
  if (at_end_) return abort_soon();
  if (input_.size() < kMaxReadAheadBytes) start_read();
}

void HttpSession::abort() {
  if (std::exchange(closed_, true)) return;
  error_code ignored;
  socket_.close(ignored);
  write_deadline_.cancel();
  readable_.notify();
  if (const auto on_close = std::exchange(on_close_, nullptr)) on_close();
}

void HttpSession::abort_soon() {
  asio::post(executor(), [self = shared_from_this()] { self->abort(); });
}

void HttpSession::begin_drain() {
  keep_alive_ = keep_alive_ && idle_;
  if (!idle_) return;
  // A new connection has a request on its way, most likely: it gets a moment to hear the truth.
  const bool is_new = num_served_ == 0;
  const auto patience = is_new ? context_.timeouts.first_request_while_draining : Duration::zero();
  idle_deadline_ = std::min(idle_deadline_, system_clock().now() + patience);
  readable_.notify();
}

asio::awaitable<void> HttpSession::refuse(HttpReply reply) {
  must_linger_ = true;
  keep_alive_ = false;
  co_await send(std::move(reply));
}

asio::awaitable<void> HttpSession::refuse_malformed(error_code ec) {
  if (ec == http::error::body_limit) {
    co_await refuse(
        error_reply(413, fmt::format("the body is larger than {} bytes (--max-body-bytes)",
                                     context_.max_body_bytes)));
  } else if (ec == http::error::header_limit) {
    co_await refuse(
        error_reply(431, fmt::format("the header is larger than {} bytes", kMaxHeaderBytes)));
  } else {
    co_await refuse(error_reply(400, "malformed HTTP request: " + ec.message()));
  }
}

asio::awaitable<void> HttpSession::refuse_unfinished() {
  keep_alive_ = false;
  if (!timed_out_ || closed_) co_return;
  co_await refuse(error_reply(408, "the request did not arrive in time"));
}

// Lets the client finish sending, or a reset would destroy the answer before it is read.
asio::awaitable<void> HttpSession::linger() {
  const TimePoint deadline = system_clock().now() + context_.timeouts.linger;
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  int64_t drained = 0;
  while (!closed_ && !at_end_ && drained < kMaxLingerBytes) {
    drained += static_cast<int64_t>(input_.size());
    input_.clear();
    const bool more = co_await fill(deadline);
    if (!more) break;
  }
}

std::string HttpSession::head(int status, std::string_view content_type) const {
  const std::string_view reason =
      status == 499 ? "Client Closed Request"
                    : std::string_view(http::obsolete_reason(static_cast<http::status>(status)));
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nServer: fasteep\r\n", status, reason);
  if (!content_type.empty()) head += fmt::format("Content-Type: {}\r\n", content_type);
  head += "Access-Control-Allow-Origin: *\r\n";
  if (!request_id_.empty()) head += fmt::format("X-Request-Id: {}\r\n", request_id_);
  if (!keep_alive_) head += "Connection: close\r\n";
  if (keep_alive_ && !chunked_) head += "Connection: keep-alive\r\n";  // HTTP/1.0
  return head;
}

template <class Buffers>
asio::awaitable<void> HttpSession::write(Buffers buffers) {
  if (closed_) co_return;
  write_deadline_.expires_after(context_.timeouts.write);
  write_deadline_.async_wait([self = shared_from_this()](error_code ec) {
    if (!ec) self->abort();
  });
  error_code ec;
  co_await asio::async_write(socket_, buffers, asio::redirect_error(asio::use_awaitable, ec));
  write_deadline_.cancel();
  if (ec) abort();
}

asio::awaitable<void> HttpSession::send(HttpReply reply) {
  replied_ = true;
  if (context_.registry->is_draining()) keep_alive_ = false;
  std::string text = head(reply.status, reply.body.empty() ? "" : reply.content_type);
  for (const auto& [name, value] : reply.headers) text += fmt::format("{}: {}\r\n", name, value);
  text += fmt::format("Content-Length: {}\r\n\r\n", reply.body.size());
  if (is_head_) reply.body.clear();
  const std::array<asio::const_buffer, 2> buffers = {asio::buffer(text), asio::buffer(reply.body)};
  co_await write(buffers);
}

asio::awaitable<void> HttpSession::begin_events() {
  replied_ = true;
  if (!chunked_ || context_.registry->is_draining()) keep_alive_ = false;
  std::string text = head(200, "text/event-stream; charset=utf-8");
  text += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  text += chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
  co_await write(asio::buffer(text));
}

asio::awaitable<void> HttpSession::write_events(std::string_view text) {
  if (!chunked_) {
    co_await write(asio::buffer(text));
    co_return;
  }
  const std::string size = fmt::format("{:x}\r\n", text.size());
  static constexpr std::string_view kEnd = "\r\n";
  const std::array<asio::const_buffer, 3> buffers = {asio::buffer(size), asio::buffer(text),
                                                     asio::buffer(kEnd)};
  co_await write(buffers);
}

asio::awaitable<void> HttpSession::end_events() {
  static constexpr std::string_view kLastChunk = "0\r\n\r\n";
  if (chunked_) co_await write(asio::buffer(kLastChunk));
}

}  // namespace fasteep
