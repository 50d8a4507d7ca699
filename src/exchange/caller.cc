#include "exchange/caller.h"

#include <cstring>
#include <limits>

namespace fasteep {

Caller::Caller(const ExchangeOptions& options, const WindowLayout& layout, OwnWindow own,
               Membership& membership, ExchangeStats& stats)
    : self_(options.rank),
      incarnation_(options.incarnation),
      layout_(layout),
      own_(own),
      membership_(membership),
      stats_(stats),
      plan_(options.rank),
      lanes_(options.max_ranks),
      late_(options.max_ranks),
      refused_((layout.max_entries + 63) / 64) {
  const size_t num_results = static_cast<size_t>(options.max_rows) * options.top_k;
  results_.reset(new float[num_results * layout.hidden]);
  for (size_t entry = 0; entry < num_results; ++entry) {
    results_by_entry_.push_back(result(static_cast<int>(entry)));
  }
}

void Caller::start(LayerId layer, Span2<const int32_t> ids) {
  plan_.start(layer, ids, membership_.views(), membership_.live());
  num_entries_ = static_cast<size_t>(ids.rows() * ids.cols());
  is_active_ = true;
}

void Caller::end() {
  is_active_ = false;
  for (auto& pair : lanes_) {
    for (Lane& lane : pair) lane.sequence = 0;
  }
}

bool Caller::post() {
  bool posted = false;
  for (const Peer* peer : membership_.connected()) {
    while (plan_.has_queued(peer->rank) && post_to(*peer)) posted = true;
  }
  if (!posted) return false;
  fence_before_ringing();
  for (const Peer* peer : membership_.connected()) {
    if (lanes(peer->rank)[0].sequence != 0 || lanes(peer->rank)[1].sequence != 0) {
      ring_for_work(peer->header(), peer->doorbell.get());
    }
  }
  return true;
}

bool Caller::post_to(const Peer& peer) {
  for (int lane = 0; lane < kNumLanes; ++lane) {
    if (lanes(peer.rank)[lane].sequence != 0) continue;
    plan_.take(peer.rank, layout_.max_entries, lanes(peer.rank)[lane].entries);
    write_call(peer, lane);
    return true;
  }
  return false;
}

void Caller::write_call(const Peer& peer, int lane_number) {
  Lane& lane = lanes(peer.rank)[lane_number];
  CallHeader& call = own_.call(peer.rank, lane_number);
  call.sequence.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // invalid before a byte behind it changes
  call.epoch.store(membership_.adopted_epoch().value, std::memory_order_relaxed);
  call.caller_incarnation.store(incarnation_.value, std::memory_order_relaxed);
  call.callee_incarnation.store(peer.incarnation.value, std::memory_order_relaxed);
  call.layer.store(plan_.layer().value, std::memory_order_relaxed);
  call.num_entries.store(static_cast<uint32_t>(lane.entries.size()), std::memory_order_relaxed);
  std::atomic<uint32_t>* words = own_.entries(peer.rank, lane_number);
  for (size_t i = 0; i < lane.entries.size(); ++i) {
    const CallEntry entry{static_cast<uint16_t>(plan_.row(lane.entries[i])),
                          static_cast<uint16_t>(plan_.expert(lane.entries[i]).value)};
    words[i].store(pack(entry), std::memory_order_relaxed);
  }
  lane.sequence = ++last_sequence_;
  lane.known = membership_.newest_epoch();
  call.sequence.store(lane.sequence, std::memory_order_release);
  stats_.calls_sent += 1;
  stats_.rows_sent += lane.entries.size();
}

// Identity: (caller incarnation, sequence, layer). A peer's memory is not trusted: an answer that
// does not fit its call is none.
bool Caller::is_answered(const Peer& peer, int lane_number) const {
  const Lane& lane = lanes_[peer.rank.value][lane_number];
  const AnswerHeader& answer = peer.view.answer(self_, lane_number);
  return lane.sequence != 0 && answer.sequence.load(std::memory_order_acquire) == lane.sequence &&
         answer.caller_incarnation.load(std::memory_order_relaxed) == incarnation_.value &&
         answer.layer.load(std::memory_order_relaxed) == plan_.layer().value &&
         answer.num_entries.load(std::memory_order_relaxed) == lane.entries.size();
}

bool Caller::has_answer() const {
  for (const Peer* peer : membership_.connected()) {
    for (int lane = 0; lane < kNumLanes; ++lane) {
      if (lanes_[peer->rank.value][lane].sequence == 0) continue;
      if (is_answered(*peer, lane) || peer->header().closed.load(std::memory_order_relaxed)) {
        return true;
      }
    }
  }
  return false;
}

bool Caller::collect() {
  bool any = false;
  for (const Peer* peer : membership_.connected()) {
    bool is_waiting = false;
    const bool is_closed = peer->header().closed.load(std::memory_order_acquire) != 0;
    for (int lane = 0; lane < kNumLanes; ++lane) {
      if (lanes(peer->rank)[lane].sequence == 0) continue;
      if (copy_out(*peer, lane)) any = true;
      is_waiting |= lanes(peer->rank)[lane].sequence != 0;
    }
    if (is_closed && is_waiting) {
      membership_.mark_closed(peer->rank);
      on_lost(peer->rank);
      any = true;
    }
  }
  return any;
}

// Copies first, then looks at the identity again: only what stood still counts.
bool Caller::copy_out(const Peer& peer, int lane_number) {
  const AnswerHeader& answer = peer.view.answer(self_, lane_number);
  Lane& lane = lanes(peer.rank)[lane_number];
  if (!is_answered(peer, lane_number)) {
    const uint64_t other = answer.sequence.load(std::memory_order_relaxed);
    uint64_t& counted = late_[peer.rank.value][lane_number];
    if (other != 0 && other != lane.sequence && other != counted) {
      ++stats_.late_answers_dropped;
      counted = other;
    }
    return false;
  }
  const Epoch callee_newest(answer.newest_epoch.load(std::memory_order_relaxed));
  const std::atomic<uint64_t>* refused = peer.view.refused(self_, lane_number);
  for (size_t word = 0; word <= (lane.entries.size() - 1) / 64; ++word) {
    refused_[word] = refused[word].load(std::memory_order_relaxed);
  }
  const size_t row_bytes = sizeof(float) * layout_.hidden;
  for (size_t i = 0; i < lane.entries.size(); ++i) {
    if (is_refused(i)) continue;
    std::memcpy(result(lane.entries[i]),
                peer.view.answer_row(self_, lane_number, static_cast<int>(i)), row_bytes);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!is_answered(peer, lane_number)) return false;
  late_[peer.rank.value][lane_number] = lane.sequence;
  settle(peer, lane_number, callee_newest);
  return true;
}

void Caller::settle(const Peer& peer, int lane_number, Epoch callee_newest) {
  Lane& lane = lanes(peer.rank)[lane_number];
  lane.sequence = 0;
  for (size_t i = 0; i < lane.entries.size(); ++i) {
    if (is_refused(i)) {
      plan_.on_refused(peer.rank, lane.entries[i], callee_newest, lane.known);
      ++stats_.reasked_rows;
    } else {
      plan_.on_answer(lane.entries[i]);
    }
  }
}

void Caller::add_own(ExpertBatch& batch) {
  own_entries_.clear();
  own_refused_.clear();
  if (!has_own() || batch.layer() != plan_.layer()) return;
  plan_.take(self_, std::numeric_limits<int>::max(), own_entries_);
  std::erase_if(own_entries_, [&](int entry) {
    if (batch.add(plan_.expert(entry), own_.outbox_row(plan_.row(entry)), result(entry))) {
      return false;
    }
    own_refused_.push_back(entry);
    return true;
  });
}

void Caller::settle_own() {
  for (int entry : own_entries_) plan_.on_answer(entry);
  const Epoch newest = membership_.newest_epoch();
  for (int entry : own_refused_) plan_.on_refused(self_, entry, newest, newest);
  stats_.reasked_rows += own_refused_.size();
}

void Caller::on_lost(RankId rank) {
  for (Lane& lane : lanes(rank)) {
    if (lane.sequence != 0) stats_.reasked_rows += lane.entries.size();
    lane.sequence = 0;
  }
  if (is_active_) plan_.on_lost(rank);
}

void Caller::on_membership() {
  if (is_active_) plan_.on_view(membership_.views(), membership_.live());
}

std::optional<RankId> Caller::waits_for() const {
  for (size_t rank = 0; rank < lanes_.size(); ++rank) {
    for (const Lane& lane : lanes_[rank]) {
      if (lane.sequence != 0) return RankId(static_cast<int32_t>(rank));
    }
  }
  return std::nullopt;
}

}  // namespace fasteep
