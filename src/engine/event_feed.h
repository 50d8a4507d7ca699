#pragma once
// Events of the instance in order, the last few thousand kept for listeners that come later.
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "engine/elastic.h"

namespace fasteep {

// Threads: one.
class EventFeed {
 public:
  using Listener = std::function<void(const ElasticEvent&)>;
  // later: runs a function from the event loop, not now.
  explicit EventFeed(std::function<void(std::function<void()>)> later) : later_(std::move(later)) {}

  void publish(std::string type, std::string json);
  // Hears, from the event loop, what has a sequence above `after` until the token is destroyed.
  std::shared_ptr<void> subscribe(uint64_t after, Listener listener);

 private:
  struct Subscriber {
    uint64_t heard = 0;  // up to this sequence
    Listener listener;
  };
  void deliver_later();
  void deliver();
  void deliver_to(Subscriber& subscriber);

  std::function<void(std::function<void()>)> later_;
  bool is_delivery_due_ = false;
  uint64_t last_sequence_ = 0;
  std::deque<ElasticEvent> events_;
  std::vector<std::weak_ptr<Subscriber>> subscribers_;  // owned by their tokens
};

}  // namespace fasteep
