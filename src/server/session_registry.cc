#include "server/session_registry.h"

#include <memory>
#include <utility>
#include <vector>

#include "server/http_session.h"

namespace fasteep {

void SessionRegistry::remove(HttpSession* session) {
  sessions_.erase(session);
  report_if_empty();
}

void SessionRegistry::drain(std::function<void()> done) {
  draining_ = true;
  drained_ = std::move(done);
  std::vector<std::shared_ptr<HttpSession>> sessions;  // held: closing one may remove it
  for (HttpSession* session : sessions_) sessions.push_back(session->shared_from_this());
  for (const auto& session : sessions) session->begin_drain();
  sessions.clear();
  report_if_empty();
}

void SessionRegistry::abort_all() {
  draining_ = true;
  drained_ = nullptr;
  std::vector<std::shared_ptr<HttpSession>> sessions;
  for (HttpSession* session : sessions_) sessions.push_back(session->shared_from_this());
  for (const auto& session : sessions) session->abort();
}

bool SessionRegistry::take_body_bytes(int64_t bytes) {
  if (body_bytes_ + bytes > max_body_bytes_) return false;
  body_bytes_ += bytes;
  return true;
}

void SessionRegistry::report_if_empty() {
  if (!draining_ || !sessions_.empty()) return;
  if (const auto done = std::exchange(drained_, nullptr)) done();
}

}  // namespace fasteep
