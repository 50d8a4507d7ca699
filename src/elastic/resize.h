#pragma once
// The transaction of one resize as a pure state machine: events in, commands out. No clock, no
// threads, no I/O; copyable, so that a test explores every interleaving.
//
//   prepare   start, connect, wake, make room (KV), fill, canary; leavers' requests move away
//   commit    the view is published; each rank adopts it at its own next step
//   reclaim   once every live rank has adopted it: drop, sleep or end, KV takes the room
//   rollback  from anywhere in prepare, to exactly the state before
//
// Make before break: kPublish comes after every fill and canary, kDrop and kSleep after every
// adoption (or after the grace deadline, when late calls are refused). After kPublish nothing goes
// back.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "elastic/resize_plan.h"

namespace fasteep {

enum class CommandKind {
  kStart,          // start the process of `member` as a shadow               -> done
  kConnect,        // introduce `rank` and all live ranks to each other       (not answered)
  kWake,           // commit the memory that does not depend on experts       -> done
  kSetKvBlocks,    // usable KV blocks become `kv_blocks`                      -> done
  kFill,           // `moves` (all to `rank`); replicated weights first if `with_replicated` -> done
  kCancel,         // give up the command `cancelled` of `rank`; it is answered all the same
  kCanary,         // a forward pass alone under `view`, compared with an active rank's      -> done
  kStopAdmitting,  // no new request to `rank`                                 (not answered)
  kAdmit,          // requests may go to `rank`                                (not answered)
  kMoveRequests,   // `rank`'s requests go elsewhere                           -> done: it has none
  kPublish,        // `view` to all live ranks                                 (adoptions follow)
  kDrop,           // withdraw `experts` of `rank`, free their slots           -> done
  kSleep,          // `rank` returns all its memory: a shadow                  -> done
  kEnd,            // `rank`'s process ends                                    -> done
  kPauseAll,       // no rank runs steps of its own                            -> done
  kResumeAll,      //                                                          (not answered)
};
std::string_view to_string(CommandKind kind);

struct ResizeCommand {
  CommandKind kind{};
  uint64_t ticket = 0;  // answered by on_done(ticket); 0: not answered
  RankId rank;
  Member member;                  // kStart
  int kv_blocks = 0;              // kSetKvBlocks
  std::vector<ExpertMove> moves;  // kFill
  bool with_replicated = false;   // kFill: copied from the members of `before`, else the checkpoint
  std::vector<ExpertKey> experts;  // kDrop
  ViewPtr view;                    // kCanary, kPublish
  uint64_t cancelled = 0;          // kCancel: a ticket
};

enum class ResizePhase { kPrepare, kCommit, kReclaim, kRollback, kDone };
std::string_view to_string(ResizePhase phase);  // "prepare", ...

class Resize {
 public:
  // Tickets go on from first_ticket. The plan has something to do.
  Resize(ResizePlan plan, uint64_t first_ticket);

  // Each returns what is to be done now, in this order. begin() comes first and once. Unknown,
  // repeated and late answers are ignored.
  using Commands = std::vector<ResizeCommand>;
  Commands begin();
  // Errors of prepare roll back. Later ones are kept for the report; the resize goes on.
  Commands on_done(uint64_t ticket, const Result<void>& result);
  Commands on_adopted(RankId rank, Epoch epoch);
  // The rank is dead. In prepare: rolls back what the others hold. Later: it is waited for no more.
  Commands on_lost(RankId rank, const Error& error);
  // Rolls back if nothing is published yet; otherwise nothing happens.
  Commands abort(const Error& reason);
  // The grace period is over by time: what has not adopted is no longer waited for.
  Commands on_grace_deadline();

  ResizePhase phase() const { return phase_; }
  bool is_done() const { return phase_ == ResizePhase::kDone; }
  bool is_committed() const { return is_committed_; }
  // Why it rolled back, or the first thing that went wrong after the commit.
  const std::optional<Error>& error() const { return error_; }
  const ResizePlan& plan() const { return plan_; }
  // Ranks whose adoption is awaited.
  const std::set<RankId>& awaited() const { return awaited_; }
  // The whole state, for recognising it again in an exploration.
  std::string key() const;

 private:
  ResizePlan plan_;
  ResizePhase phase_ = ResizePhase::kPrepare;
  bool is_committed_ = false;
  std::optional<Error> error_;
  std::set<RankId> awaited_;
  uint64_t next_ticket_;
};

}  // namespace fasteep
