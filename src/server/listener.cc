#include "server/listener.h"

#include "base/log.h"

namespace fasteep {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;

Result<Tcp::endpoint> resolve(asio::io_context& io, const std::string& host, int port) {
  error_code ec;
  const auto address = asio::ip::make_address(host, ec);
  if (!ec) return Tcp::endpoint(address, static_cast<uint16_t>(port));
  const auto found = Tcp::resolver(io).resolve(host, std::to_string(port), ec);
  if (ec || found.empty())
    return invalid_input("--host {}: {}", host, ec.message()).on_field("--host");
  return found.begin()->endpoint();
}

Error listen_error(const std::string& host, int port, const error_code& ec) {
  if (ec == asio::error::address_in_use)
    return make_error(ErrorCode::kUnavailable,
                      "port {} is in use on {}: stop the other server or pass --port", port, host)
        .on_field("--port");
  return make_error(ErrorCode::kIo, "cannot listen on {}:{}: {}", host, port, ec.message());
}

Result<Tcp::acceptor> listen(asio::io_context& io, const std::string& host, int port) {
  FASTEEP_TRY(const Tcp::endpoint endpoint, resolve(io, host, port));
  Tcp::acceptor acceptor(io);
  error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(Tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return listen_error(host, port, ec);
  return acceptor;
}

}  // namespace

Result<std::shared_ptr<Listener>> Listener::create(asio::io_context& io, const std::string& host,
                                                   int port, HttpSession::Context context) {
  FASTEEP_TRY(Tcp::acceptor acceptor, listen(io, host, port));
  return std::shared_ptr<Listener>(new Listener(std::move(acceptor), std::move(context)));
}

Listener::Listener(Tcp::acceptor acceptor, HttpSession::Context context)
    : acceptor_(std::move(acceptor)),
      retry_(acceptor_.get_executor()),
      context_(std::move(context)),
      port_(acceptor_.local_endpoint().port()) {}

void Listener::stop() {
  error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
}

void Listener::accept() {
  if (!acceptor_.is_open()) return;
  acceptor_.async_accept([self = shared_from_this()](error_code ec, Tcp::socket socket) {
    self->on_accept(ec, std::move(socket));
  });
}

void Listener::on_accept(error_code ec, Tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  if (ec == asio::error::no_descriptors || ec == asio::error::no_memory) return retry_later();
  if (!ec && context_.registry->is_full()) {
    log_warning("too many connections: one is refused");
  } else if (!ec) {
    socket.set_option(Tcp::no_delay(true), ec);
    HttpSession::start(std::make_shared<HttpSession>(std::move(socket), context_));
  }
  accept();
}

// Connections wait in the kernel until others have closed.
void Listener::retry_later() {
  log_warning("no file descriptors left for connections: raise `ulimit -n`");
  retry_.expires_after(std::chrono::milliseconds(200));
  retry_.async_wait([self = shared_from_this()](error_code ec) {
    if (!ec) self->accept();
  });
}

}  // namespace fasteep
