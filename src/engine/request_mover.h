#pragma once
// Requests leave a rank: each by the cheapest of finish, migrate, swap and recompute. Their streams
// notice nothing.
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/elastic.h"
#include "engine/request_journal.h"
#include "rank/api.pb.h"
#include "transport/descriptor.h"

namespace fasteep {

struct RequestMoved {
  RequestId id;
  KvMove method = KvMove::kRecompute;
  RankId from, to;
  double seconds = 0;   // in all
  double parked_s = 0;  // in which it could not go on
  uint64_t bytes = 0;   // of KV
  std::string reason;   // the cost model's inputs and choice, in words
};

// What the mover needs of the engine around it.
struct MoverPorts {
  using OnDone = std::function<void(const Result<api::Done>&)>;
  // Answered from the loop, once, also when the rank is lost (kPeerLost).
  std::function<void(RankId, api::Order, std::vector<Descriptor>, OnDone)> order;
  std::function<void(RankId, const api::ToRank&)> send;
  // An admitting rank for it, never its own. Errors: kExhausted, kUnavailable.
  std::function<Result<RankId>(const JournalEntry&)> choose;
  std::function<api::ToRank(const JournalEntry&)> submit_message;  // with the delivered tokens
  // From now on the request is `to`'s: journal and router.
  std::function<void(JournalEntry&, RankId to)> assign;
  std::function<void(const RequestMoved&)> on_moved;
};

struct MoverOptions {
  KvMove method = KvMove::kAuto;
  double drain_timeout_s = 0;  // how long requests may finish where they are
  int block_tokens = 16;
  size_t kv_token_bytes = 0;      // KV of one token, all layers
  double copy_bytes_per_s = 1e9;  // for the cost model
};

// Threads: the io_context's.
class RequestMover {
 public:
  RequestMover(boost::asio::io_context& loop, const Clock& clock, RequestJournal& journal,
               MoverPorts ports);
  ~RequestMover();

  // Moves all requests of `rank`, which is given no new ones any more, also those that come to it
  // while this runs. `done` is called once from the loop: it has none, or (kCancelled) stop() was
  // called, or (kPeerLost) it was lost.
  void empty(RankId rank, const MoverOptions& options, std::function<void(Result<void>)> done);
  // Moves that are under way end where they are safe: on one rank, running.
  void stop(RankId rank);
  // The engine tells it what happens elsewhere.
  void on_progress(const JournalEntry& entry);  // a token was delivered
  void on_ended(RequestId id);                  // finished, failed or cancelled
  void on_lost(RankId rank);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace fasteep
