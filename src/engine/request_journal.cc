#include "engine/request_journal.h"

#include <algorithm>

namespace fasteep {

JournalEntry& RequestJournal::add(GenerateRequest request, Engine::Stream stream, RankId rank) {
  const RequestId id(++last_id_);
  JournalEntry& entry = entries_[id];
  entry.id = id;
  entry.request = std::move(request);
  entry.stream = std::move(stream);
  entry.rank = rank;
  return entry;
}

JournalEntry* RequestJournal::find(RequestId id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

Delivery RequestJournal::deliver(JournalEntry& entry, int position, TokenId token) {
  const auto next = static_cast<int>(entry.delivered.size());
  CHECK(position >= 0 && position <= next, "request {}: position {} comes, {} is next", entry.id,
        position, next);
  if (position < next) return Delivery::kDuplicate;
  entry.delivered.push_back(token);
  return Delivery::kNew;
}

JournalEntry RequestJournal::take(RequestId id) {
  const auto found = entries_.find(id);
  CHECK(found != entries_.end(), "request {} ends twice", id);
  JournalEntry entry = std::move(found->second);
  entries_.erase(found);
  return entry;
}

std::vector<RequestId> RequestJournal::ids() const {
  std::vector<RequestId> ids;
  for (const auto& [id, entry] : entries_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<RequestId> RequestJournal::on_rank(RankId rank) const {
  std::vector<RequestId> ids;
  for (const auto& [id, entry] : entries_) {
    if (entry.rank == rank) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace fasteep
