#include "server/status_pages.h"

#include "server/json_limits.h"

namespace fasteep {
namespace {

// vLLM's: an empty 200, or why requests would be refused.
HttpReply health(const Engine& engine, const SessionRegistry& registry) {
  const EngineStatus status = engine.status();
  if (registry.is_draining() || status.draining) return error_reply(503, "the server is draining");
  if (status.ready) return {200, ""};
  return error_reply(
      503, status.not_ready_reason.empty() ? "the engine is not ready" : status.not_ready_reason);
}

}  // namespace

void add_status_pages(Router& router, const Engine& engine, const ServerMetrics& metrics,
                      std::shared_ptr<SessionRegistry> registry) {
  const auto add = [&router](const char* path, Router::Function function) {
    router.add(http::verb::get, path, Access::kOpen, std::move(function));
  };
  add("/health", [&engine, registry](const HttpRequest&) { return health(engine, *registry); });
  add("/version", [](const HttpRequest&) {
    return HttpReply{200, to_text({{"version", FASTEEP_VERSION}})};
  });
  add("/metrics", [&engine, &metrics](const HttpRequest&) {
    return HttpReply{200, metrics.text() + engine.metrics_text(),
                     "text/plain; version=0.0.4; charset=utf-8"};
  });
  add("/", [](const HttpRequest&) {
    return HttpReply{200, "FastEEP " FASTEEP_VERSION ": POST /v1/chat/completions\n",
                     "text/plain; charset=utf-8"};
  });
}

}  // namespace fasteep
