#pragma once
// The HTTP server of one engine.
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "base/result.h"
#include "engine/engine.h"
#include "server/served_model.h"
#include "server/server_options.h"

namespace fasteep {

class Router;

// Threads: the io_context's one, which the engine shares; long bodies are read on one more. Must be
// destroyed before the io_context, the engine and the model's TextModel.
class Server {
 public:
  // Listens from here on; answers once the io_context runs.
  // Errors: kUnavailable for a port in use, kInvalidInput for an unknown host, kIo.
  static Result<std::unique_ptr<Server>> create(boost::asio::io_context& io, Engine& engine,
                                                ServedModel model, ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  // For routes of others (the elastic API). Before the io_context runs.
  Router& router();

  // Accepts no connections and no new generations; what runs finishes, idle connections close.
  // `done` is called on the io_context when the last connection has closed.
  void drain(std::function<void()> done);
  // Closes every connection now and cancels its requests.
  void stop();

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace fasteep
