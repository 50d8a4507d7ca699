#include "engine/event_feed.h"

namespace fasteep {
namespace {

constexpr size_t kKeptEvents = 4096;

}  // namespace

void EventFeed::publish(std::string type, std::string json) {
  events_.push_back({++last_sequence_, std::move(type), std::move(json)});
  if (events_.size() > kKeptEvents) events_.pop_front();
  if (!subscribers_.empty()) deliver_later();
}

std::shared_ptr<void> EventFeed::subscribe(uint64_t after, Listener listener) {
  auto subscriber = std::make_shared<Subscriber>(Subscriber{after, std::move(listener)});
  subscribers_.push_back(subscriber);
  deliver_later();
  return subscriber;
}

void EventFeed::deliver_later() {
  if (std::exchange(is_delivery_due_, true)) return;
  later_([this] { deliver(); });
}

// Listeners may unsubscribe, subscribe and cause events: those are delivered next time.
void EventFeed::deliver() {
  is_delivery_due_ = false;
  std::erase_if(subscribers_, [](const auto& subscriber) { return subscriber.expired(); });
  const std::vector<std::weak_ptr<Subscriber>> subscribers = subscribers_;
  for (const auto& weak : subscribers) {
    if (const auto subscriber = weak.lock()) deliver_to(*subscriber);
  }
}

void EventFeed::deliver_to(Subscriber& subscriber) {
  const std::deque<ElasticEvent>& events = events_;
  while (!events.empty() && subscriber.heard < events.back().sequence) {
    const uint64_t oldest = events.front().sequence;
    const size_t next = subscriber.heard < oldest ? 0 : subscriber.heard + 1 - oldest;
    const ElasticEvent event = events[next];  // the listener may add to the list
    subscriber.heard = event.sequence;
    subscriber.listener(event);
  }
}

}  // namespace fasteep
