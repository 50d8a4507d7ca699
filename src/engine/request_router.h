#pragma once
// Chooses the rank of a request: the one with most room, or one that has the prompt's prefix unless
// it is much more loaded.
#include <map>
#include <span>

#include "base/result.h"
#include "engine/prefix_index.h"

namespace fasteep {

struct RouterOptions {
  int block_tokens = 16;
  bool prefix_cache = true;
  int max_running = 64;    // of one rank at a time: more of them wait
  int max_requests = 128;  // of one rank, running and waiting
};

// Pure. Threads: one.
class RequestRouter {
 public:
  explicit RequestRouter(const RouterOptions& options);

  void add_rank(RankId rank, int64_t kv_tokens);
  void remove_rank(RankId rank);
  bool has_rank(RankId rank) const { return loads_.contains(rank); }
  // A rank that is not admitting is not chosen; its requests stay counted.
  void set_admitting(RankId rank, bool admitting);
  void set_kv_tokens(RankId rank, int64_t kv_tokens);

  // Errors: kExhausted (every admitting rank has max_requests), kUnavailable (no rank admits).
  Result<RankId> choose(std::span<const TokenId> prompt) const;
  // `tokens` is the KV that the request may come to need.
  void on_assigned(RankId rank, std::span<const TokenId> prompt, int64_t tokens);
  // The request is over; `sequence` (prompt and answer) is likely to be a prefix of a later prompt.
  void on_ended(RankId rank, std::span<const TokenId> sequence, int64_t tokens);

 private:
  struct Load {
    int64_t kv_tokens = 0;
    int64_t tokens = 0;  // promised to its requests
    int requests = 0;
    bool admitting = true;
  };
  bool takes_more(const Load& load) const {
    return load.admitting && load.requests < options_.max_requests;
  }
  bool is_better(const Load& a, const Load& b) const;
  std::optional<RankId> most_room() const;
  std::optional<RankId> best_prefix(std::span<const TokenId> prompt) const;

  RouterOptions options_;
  std::map<RankId, Load> loads_;
  PrefixIndex prefixes_;
};

}  // namespace fasteep
