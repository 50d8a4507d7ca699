#pragma once
// The open connections of a server, and what they share.
#include <cstdint>
#include <functional>
#include <unordered_set>

namespace fasteep {

class HttpSession;

// Threads: the server's. Shared by the server and its sessions, whose coroutines may outlive it.
class SessionRegistry {
 public:
  SessionRegistry(int max_sessions, int64_t max_body_bytes)
      : max_sessions_(max_sessions), max_body_bytes_(max_body_bytes) {}

  bool is_full() const { return static_cast<int>(sessions_.size()) >= max_sessions_; }
  void add(HttpSession* session) { sessions_.insert(session); }
  void remove(HttpSession* session);

  // Idle sessions close, the others after their present request. `done` is called (from a session's
  // end or at once) when none is left.
  void drain(std::function<void()> done);
  bool is_draining() const { return draining_; }
  void abort_all();

  // Bytes of request bodies in memory; false: the bound would be passed and nothing is taken.
  bool take_body_bytes(int64_t bytes);
  void give_body_bytes(int64_t bytes) { body_bytes_ -= bytes; }

 private:
  void report_if_empty();

  std::unordered_set<HttpSession*> sessions_;
  const int max_sessions_;
  const int64_t max_body_bytes_;
  int64_t body_bytes_ = 0;
  bool draining_ = false;
  std::function<void()> drained_;
};

}  // namespace fasteep
