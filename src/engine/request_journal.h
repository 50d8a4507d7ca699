#pragma once
// Every accepted request until it ends: what was asked, which rank works on it, what was delivered.
// Enough to submit it again elsewhere.
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"

namespace fasteep {

struct JournalEntry {
  RequestId id;
  GenerateRequest request;
  Engine::Stream stream;
  RankId rank;
  std::vector<TokenId> delivered;  // in order, each position once
  int cached_prompt_tokens = 0;
  TimePoint last_token;  // when it was delivered; the epoch of the clock: none yet

  int64_t kv_tokens() const {  // that it may come to need
    return static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
  }
};

enum class Delivery {
  kNew,
  kDuplicate,  // delivered before: drop it
};

// Threads: one. Pointers stay good until their entry is taken.
class RequestJournal {
 public:
  RequestId next_id() const { return RequestId(last_id_ + 1); }
  JournalEntry& add(GenerateRequest request, Engine::Stream stream, RankId rank);
  JournalEntry* find(RequestId id);  // nullptr: unknown or ended
  // Tokens come from any rank that works on the request, in order from each: a gap is a bug.
  Delivery deliver(JournalEntry& entry, int position, TokenId token);
  JournalEntry take(RequestId id);  // it ends; it must be there

  std::vector<RequestId> ids() const;  // oldest first
  std::vector<RequestId> on_rank(RankId rank) const;
  size_t size() const { return entries_.size(); }

 private:
  uint64_t last_id_ = 0;
  std::unordered_map<RequestId, JournalEntry> entries_;
};

}  // namespace fasteep
