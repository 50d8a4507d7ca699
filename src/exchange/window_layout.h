#pragma once
// What lies where in a rank's window (docs/protocol.md, "Window layout"). A window is written by
// its owner only: the owner's calls and rows, and its answers to the calls of others.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/ids.h"
#include "exchange/exchange.h"
#include "transport/window.h"

namespace fasteep {

inline constexpr uint32_t kLayoutVersion = 1;
inline constexpr int kNumLanes =
    2;  // calls in flight per pair: one is answered while one is copied out
inline constexpr size_t kMaxAnswerBytes = size_t{4} << 20;  // rows of one answer

struct ExchangeHeader {
  WindowHeader window;
  alignas(64) std::atomic<uint64_t> progress;  // packed Progress, gather.h
  std::atomic<uint64_t> heartbeat;             // grows while the owner runs
  std::atomic<uint64_t> newest_epoch;          // newest view that the owner has seen
};

// `sequence` is unique in the caller's life. 0: invalid, being rewritten. Written last.
struct alignas(64) CallHeader {
  std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> epoch;
  std::atomic<uint32_t> caller_incarnation;
  std::atomic<uint32_t> callee_incarnation;
  std::atomic<int32_t> layer;
  std::atomic<uint32_t> num_entries;
};

// Echoes the identity of the call that it answers.
struct alignas(64) AnswerHeader {
  std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> newest_epoch;  // of the callee, for refused entries
  std::atomic<uint32_t> caller_incarnation;
  std::atomic<int32_t> layer;
  std::atomic<uint32_t> num_entries;
  std::atomic<uint32_t> num_refused;
};

// One (row of the caller's outbox, expert) of a call.
struct CallEntry {
  uint16_t row = 0;
  uint16_t expert = 0;
};
inline uint32_t pack(CallEntry entry) { return entry.row | uint32_t{entry.expert} << 16; }
inline CallEntry unpack_entry(uint32_t word) {
  return {static_cast<uint16_t>(word), static_cast<uint16_t>(word >> 16)};
}

// Offsets in bytes. A pure function of the options, so equal in all ranks.
struct WindowLayout {
  explicit WindowLayout(const ExchangeOptions& options);
  int max_ranks, max_rows, hidden;
  int max_entries;   // of one call
  size_t row_bytes;  // of an outbox row
  size_t outbox, calls, answers, answer_rows, size_bytes;
  size_t call_stride, answer_stride, answer_rows_stride;  // from lane to lane
};

// A window by its layout. Byte: std::byte for the owner, const std::byte for a peer.
template <class Byte>
class WindowView {
  template <class T>
  using Like = std::conditional_t<std::is_const_v<Byte>, const T, T>;

 public:
  WindowView() = default;
  WindowView(Byte* base, const WindowLayout& layout) : base_(base), layout_(&layout) {}

  Like<ExchangeHeader>& header() const { return *at<ExchangeHeader>(0); }
  Byte* outbox_row(int row) const { return base_ + layout_->outbox + row * layout_->row_bytes; }

  // The owner's call to `callee`, and its entries [max_entries].
  Like<CallHeader>& call(RankId callee, int lane) const {
    return *at<CallHeader>(layout_->calls + index(callee, lane) * layout_->call_stride);
  }
  Like<std::atomic<uint32_t>>* entries(RankId callee, int lane) const {
    return reinterpret_cast<Like<std::atomic<uint32_t>>*>(&call(callee, lane) + 1);
  }
  // The owner's answer to `caller`: a bitmap of refused entries, and rows [max_entries, hidden].
  Like<AnswerHeader>& answer(RankId caller, int lane) const {
    return *at<AnswerHeader>(layout_->answers + index(caller, lane) * layout_->answer_stride);
  }
  Like<std::atomic<uint64_t>>* refused(RankId caller, int lane) const {
    return reinterpret_cast<Like<std::atomic<uint64_t>>*>(&answer(caller, lane) + 1);
  }
  Like<float>* answer_row(RankId caller, int lane, int entry) const {
    const size_t lane_start =
        layout_->answer_rows + index(caller, lane) * layout_->answer_rows_stride;
    return at<float>(lane_start + sizeof(float) * layout_->hidden * entry);
  }

 private:
  size_t index(RankId rank, int lane) const {
    DCHECK(rank.value >= 0 && rank.value < layout_->max_ranks, "rank {}", rank);
    return static_cast<size_t>(rank.value) * kNumLanes + lane;
  }
  template <class T>
  Like<T>* at(size_t offset) const {
    return reinterpret_cast<Like<T>*>(base_ + offset);
  }

  Byte* base_ = nullptr;
  const WindowLayout* layout_ = nullptr;
};

using OwnWindow = WindowView<std::byte>;
using PeerWindow = WindowView<const std::byte>;

}  // namespace fasteep
