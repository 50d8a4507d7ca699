#include "engine/request_router.h"

#include <algorithm>

namespace fasteep {
namespace {

constexpr size_t kIndexedBlocks = size_t{1} << 17;  // about 100 bytes each

// A rank with the prefix is preferred while it has at most this many times, and this many more,
// requests than the rank with most room: a prefill is worth a few decodes, not a hot spot.
constexpr int kPrefixLoadFactor = 2;
constexpr int kPrefixLoadExtra = 4;

}  // namespace

RequestRouter::RequestRouter(const RouterOptions& options)
    : options_(options), prefixes_(options.block_tokens, kIndexedBlocks) {}

void RequestRouter::add_rank(RankId rank, int64_t kv_tokens) { loads_[rank] = {kv_tokens}; }

void RequestRouter::set_admitting(RankId rank, bool admitting) {
  const auto found = loads_.find(rank);
  if (found != loads_.end()) found->second.admitting = admitting;
}

void RequestRouter::set_kv_tokens(RankId rank, int64_t kv_tokens) {
  const auto found = loads_.find(rank);
  if (found != loads_.end()) found->second.kv_tokens = kv_tokens;
}

void RequestRouter::remove_rank(RankId rank) {
  loads_.erase(rank);
  prefixes_.remove_rank(rank);
}

// Not having to wait counts most, then room for tokens, then fewer requests.
bool RequestRouter::is_better(const Load& a, const Load& b) const {
  const bool a_waits = a.requests >= options_.max_running;
  const bool b_waits = b.requests >= options_.max_running;
  if (a_waits != b_waits) return b_waits;
  const int64_t a_room = a.kv_tokens - a.tokens, b_room = b.kv_tokens - b.tokens;
  if (a_room != b_room) return a_room > b_room;
  return a.requests < b.requests;
}

std::optional<RankId> RequestRouter::most_room() const {
  std::optional<RankId> best;
  for (const auto& [rank, load] : loads_) {
    if (!takes_more(load)) continue;
    if (!best || is_better(load, loads_.at(*best))) best = rank;
  }
  return best;
}

// The rank with the longest prefix; with equal ones the less loaded.
std::optional<RankId> RequestRouter::best_prefix(std::span<const TokenId> prompt) const {
  const std::vector<int> cached = prefixes_.cached_tokens(prompt);
  const auto tokens_of = [&](RankId rank) { return cached[static_cast<size_t>(rank.value)]; };
  std::optional<RankId> best;
  for (const auto& [rank, load] : loads_) {
    if (tokens_of(rank) == 0 || !takes_more(load)) continue;
    const bool longer = !best || tokens_of(rank) > tokens_of(*best);
    const bool equal = best && tokens_of(rank) == tokens_of(*best);
    if (longer || (equal && is_better(load, loads_.at(*best)))) best = rank;
  }
  return best;
}

Result<RankId> RequestRouter::choose(std::span<const TokenId> prompt) const {
  if (std::ranges::none_of(loads_, [](const auto& l) { return l.second.admitting; })) {
    return make_error(ErrorCode::kUnavailable, "no rank serves");
  }
  const std::optional<RankId> roomy = most_room();
  if (!roomy) {
    return make_error(ErrorCode::kExhausted,
                      "the queue is full: every rank has {} requests; try again later",
                      options_.max_requests);
  }
  if (!options_.prefix_cache) return *roomy;
  const std::optional<RankId> prefix = best_prefix(prompt);
  if (!prefix) return *roomy;
  const int limit = loads_.at(*roomy).requests * kPrefixLoadFactor + kPrefixLoadExtra;
  return loads_.at(*prefix).requests <= limit ? *prefix : *roomy;
}

void RequestRouter::on_assigned(RankId rank, std::span<const TokenId> prompt, int64_t tokens) {
  Load& load = loads_.at(rank);
  ++load.requests;
  load.tokens += tokens;
  if (options_.prefix_cache) prefixes_.add(prompt, rank);
}

void RequestRouter::on_ended(RankId rank, std::span<const TokenId> sequence, int64_t tokens) {
  const auto found = loads_.find(rank);
  if (found == loads_.end()) return;  // lost meanwhile
  --found->second.requests;
  found->second.tokens -= tokens;
  CHECK(found->second.requests >= 0 && found->second.tokens >= 0,
        "rank {} has {} requests with {} tokens", rank, found->second.requests,
        found->second.tokens);
  if (options_.prefix_cache) prefixes_.add(sequence, rank);
}

}  // namespace fasteep
