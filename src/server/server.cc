#include "server/server.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "server/listener.h"
#include "server/openai_service.h"
#include "server/router.h"
#include "server/status_pages.h"

namespace fasteep {
namespace {

// Each connection is a descriptor, and the usual soft limit is 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

struct Server::Parts {
  Parts(boost::asio::io_context& io, Engine& engine, ServedModel served, ServerOptions given)
      : executor(io.get_executor()),
        model(std::move(served)),
        options(std::move(given)),
        metrics(model.names.front()),
        registry(std::make_shared<SessionRegistry>(
            options.bounds.connections,
            std::max(options.bounds.bodies_bytes, options.max_body_bytes))),
        router(std::make_shared<Router>(split_list(options.api_key))),
        pool(executor),
        openai({{executor, engine, model, metrics}, pool, options.bounds, registry}) {
    openai.add_routes(*router);
    add_status_pages(*router, engine, metrics, registry);
  }

  boost::asio::any_io_executor executor;
  const ServedModel model;
  const ServerOptions options;
  ServerMetrics metrics;
  std::shared_ptr<SessionRegistry> registry;  // shared with sessions, which may outlive the server
  std::shared_ptr<Router> router;             // the same
  TextPool pool;
  OpenAiService openai;
  std::shared_ptr<Listener> listener;  // shared with its pending accept
};

Result<std::unique_ptr<Server>> Server::create(boost::asio::io_context& io, Engine& engine,
                                               ServedModel model, ServerOptions options) {
  CHECK(!model.names.empty(), "a served model has a name");
  raise_descriptor_limit();
  auto parts = std::make_unique<Parts>(io, engine, std::move(model), std::move(options));
  const ServerOptions& given = parts->options;
  const HttpSession::Context context{given.timeouts, given.max_body_bytes, parts->router,
                                     parts->registry};
  FASTEEP_TRY(parts->listener, Listener::create(io, given.host, given.port, context));
  parts->listener->start();
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() { stop(); }

int Server::port() const { return parts_->listener->port(); }

Router& Server::router() { return *parts_->router; }

void Server::drain(std::function<void()> done) {
  parts_->listener->stop();
  parts_->registry->drain(
      [executor = parts_->executor, done = std::move(done)] { boost::asio::post(executor, done); });
}

void Server::stop() {
  parts_->listener->stop();
  parts_->registry->abort_all();
}

}  // namespace fasteep
