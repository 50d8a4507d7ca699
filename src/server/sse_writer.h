#pragma once
// Server-sent events that wait to be written: bounded, for the client may be slow.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace fasteep {

class SseWriter {
 public:
  explicit SseWriter(size_t max_bytes) : max_bytes_(max_bytes) {}

  // One event. False: the bound is passed; the event is dropped, and the stream is to be cut off. A
  // single event may be larger than the bound.
  bool add(std::string_view data) {
    if (!pending_.empty() && pending_.size() + data.size() > max_bytes_) overflowed_ = true;
    if (overflowed_) return false;
    pending_.append("data: ").append(data).append("\n\n");
    return true;
  }

  bool is_empty() const { return pending_.empty(); }
  std::string take() { return std::exchange(pending_, {}); }

 private:
  const size_t max_bytes_;
  std::string pending_;
  bool overflowed_ = false;
};

}  // namespace fasteep
