#include "exchange/expert_service.h"

#include <algorithm>

namespace fasteep {

ExpertService::ExpertService(const ExchangeOptions& options, const WindowLayout& layout,
                             OwnWindow own, Membership& membership, ExchangeStats& stats)
    : self_(options.rank),
      incarnation_(options.incarnation),
      layout_(layout),
      own_(own),
      membership_(membership),
      stats_(stats) {
  entries_.reserve(layout.max_entries);
  answers_.reserve(static_cast<size_t>(layout.max_ranks) * kNumLanes);
}

bool ExpertService::is_waiting(const Peer& peer, int lane) const {
  const CallHeader& call = peer.view.call(self_, lane);
  const uint64_t sequence = call.sequence.load(std::memory_order_acquire);
  return sequence != 0 && sequence != peer.seen[lane] &&
         call.caller_incarnation.load(std::memory_order_relaxed) == peer.incarnation.value &&
         call.callee_incarnation.load(std::memory_order_relaxed) == incarnation_.value;
}

bool ExpertService::has_call(const Peer& peer, LayerId layer) const {
  if (!peer.is_open || !peer.is_member) return false;
  for (int lane = 0; lane < kNumLanes; ++lane) {
    if (is_waiting(peer, lane) &&
        peer.view.call(self_, lane).layer.load(std::memory_order_relaxed) == layer.value) {
      return true;
    }
  }
  return false;
}

std::optional<LayerId> ExpertService::next_layer(LayerId except) const {
  for (const Peer* peer : membership_.connected()) {
    if (!peer->is_open || !peer->is_member) continue;
    for (int lane = 0; lane < kNumLanes; ++lane) {
      if (!is_waiting(*peer, lane)) continue;
      const LayerId layer(peer->view.call(self_, lane).layer.load(std::memory_order_relaxed));
      if (layer != except) return layer;
    }
  }
  return std::nullopt;
}

int ExpertService::join(ExpertBatch& batch) {
  for (Peer* peer : membership_.connected()) {
    if (!peer->is_open || !peer->is_member) continue;
    for (int lane = 0; lane < kNumLanes; ++lane) {
      if (is_waiting(*peer, lane)) read_call(*peer, lane, batch);
    }
  }
  return static_cast<int>(answers_.size());
}

// Copies the call before judging it, and looks at its sequence again afterwards: the caller may
// give a call up and write the next one at any time.
void ExpertService::read_call(Peer& peer, int lane, ExpertBatch& batch) {
  const CallHeader& call = peer.view.call(self_, lane);
  const uint64_t sequence = call.sequence.load(std::memory_order_acquire);
  const LayerId layer(call.layer.load(std::memory_order_relaxed));
  const uint32_t claimed = call.num_entries.load(std::memory_order_relaxed);
  if (layer != batch.layer()) return;
  const auto num_entries = std::min<uint32_t>(claimed, layout_.max_entries);
  const std::atomic<uint32_t>* words = peer.view.entries(self_, lane);
  entries_.clear();
  for (uint32_t i = 0; i < num_entries; ++i) {
    entries_.push_back(unpack_entry(words[i].load(std::memory_order_relaxed)));
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (call.sequence.load(std::memory_order_relaxed) != sequence || sequence == 0) return;
  peer.seen[lane] = sequence;
  const bool is_good = claimed == num_entries && membership_.is_moe_layer(layer) &&
                       is_well_formed(static_cast<int>(num_entries), batch.num_experts());
  if (!is_good) return;
  answers_.push_back({&peer, lane, sequence});
  prepare_answer(peer, lane, batch);
}

bool ExpertService::is_well_formed(int num_entries, int num_experts) const {
  return num_entries > 0 && std::all_of(entries_.begin(), entries_.end(), [&](CallEntry entry) {
           return entry.row < layout_.max_rows && entry.expert < num_experts;
         });
}

void ExpertService::prepare_answer(const Peer& peer, int lane, ExpertBatch& batch) {
  AnswerHeader& answer = own_.answer(peer.rank, lane);
  answer.sequence.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // invalid before a byte behind it changes
  std::atomic<uint64_t>* refused = own_.refused(peer.rank, lane);
  uint64_t word = 0;
  uint32_t num_refused = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const bool is_held =
        batch.add(ExpertId(entries_[i].expert), peer.view.outbox_row(entries_[i].row),
                  own_.answer_row(peer.rank, lane, static_cast<int>(i)));
    if (!is_held) {
      word |= uint64_t{1} << (i % 64);
      ++num_refused;
    }
    if (i % 64 == 63 || i + 1 == entries_.size()) {
      refused[i / 64].store(word, std::memory_order_relaxed);
      word = 0;
    }
  }
  answer.newest_epoch.store(membership_.newest_epoch().value, std::memory_order_relaxed);
  answer.caller_incarnation.store(peer.incarnation.value, std::memory_order_relaxed);
  answer.layer.store(batch.layer().value, std::memory_order_relaxed);
  answer.num_entries.store(static_cast<uint32_t>(entries_.size()), std::memory_order_relaxed);
  answer.num_refused.store(num_refused, std::memory_order_relaxed);
  stats_.calls_served += 1;
  stats_.rows_served += entries_.size() - num_refused;
  stats_.refusals += num_refused;
}

void ExpertService::publish() {
  if (answers_.empty()) return;
  for (const Answer& answer : answers_) {
    own_.answer(answer.peer->rank, answer.lane)
        .sequence.store(answer.sequence, std::memory_order_release);
  }
  fence_before_ringing();
  for (const Answer& answer : answers_) {
    ring_for_work(answer.peer->header(), answer.peer->doorbell.get());
  }
  answers_.clear();
}

void ExpertService::forget(RankId caller) {
  for (int lane = 0; lane < kNumLanes; ++lane) {
    own_.answer(caller, lane).sequence.store(0, std::memory_order_release);
  }
}

}  // namespace fasteep
