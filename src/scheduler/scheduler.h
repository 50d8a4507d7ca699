#pragma once
// Requests of one rank: admission, continuous batching, chunked prefill, prefix cache, preemption.
// Pure: no threads, no memory of the device, no time but what is passed in. Block ids are numbers.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/sampling.h"

namespace fasteep {

struct SchedulerOptions {
  int max_num_seqs = 64;             // sequences in one step
  int max_num_batched_tokens = 512;  // rows in one step, prefill chunks and decodes together
  int block_tokens = 16;
  int num_blocks = 0;
  int max_model_len = 0;
  int max_waiting = 1024;  // queue bound: beyond it submit() answers kExhausted
  int prefill_chunk = 0;   // longest prefill piece of one sequence per step; 0: the budget
  bool prefix_cache = true;
};

struct SequenceRequest {
  RequestId id;
  std::vector<TokenId> prompt;  // prompt, then any tokens already delivered (recompute, hand-over)
  int num_delivered = 0;        // how many of `prompt`'s last tokens were generated already
  int max_tokens = 0;           // to generate in all, delivered ones included
  SamplingParams sampling;
  std::vector<TokenId> stop_token_ids;  // model's own ones included unless ignore_eos
  bool logits_digest = false;
};

// One sequence's rows in a step.
struct PlannedSequence {
  RequestId id;
  int first_position = 0;       // of its first row
  std::vector<TokenId> tokens;  // input tokens, one a row
  std::vector<BlockId> blocks;  // of positions 0 .. first_position + tokens.size() - 1
  bool wants_sample = false;    // the last row's logits give the next token
  SamplingParams sampling;      // valid if wants_sample
  bool logits_digest = false;
};

struct StepPlan {
  std::vector<PlannedSequence> sequences;
  int num_rows = 0;
  bool empty() const { return sequences.empty(); }
};

enum class SequenceEnd { kNone, kStop, kLength };

struct SequenceUpdate {
  RequestId id;
  int index = 0;  // of the generated token, from 0
  TokenId token = 0;
  SequenceEnd end = SequenceEnd::kNone;
  int cached_prompt_tokens = 0;
};

// KV of one request as it lies in the blocks of this rank.
struct HeldKv {
  std::vector<BlockId> blocks;  // in order of positions
  int num_computed = 0;         // leading tokens whose KV they hold
};

struct SchedulerStats {
  int running = 0, waiting = 0;  // running: parked ones included
  int parked = 0;
  // cached: unreferenced, reusable. The sum is the number of blocks and those used above the limit.
  int blocks_used = 0, blocks_cached = 0, blocks_free = 0;
  uint64_t preemptions = 0, prefix_hit_tokens = 0, prefix_query_tokens = 0, steps = 0;
  uint64_t prompt_tokens = 0, generated_tokens = 0;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();

  // Errors: kExhausted (queue full), kInvalidInput (does not fit max_model_len or all the KV
  // blocks). kv_tokens > 0: the KV of its first tokens lies in the blocks that were reserved for it
  // (reserve()); it takes them over (those it needs not yet are free) and runs at once, before all
  // that wait, however long the queue is. If max_num_seqs run already, the youngest is preempted.
  // It counts as the oldest of all, so it is preempted last. Its updates say 0 cached prompt
  // tokens: the rank it comes from has told them. kInvalidInput also: the reservation is smaller,
  // or not at least the last token is left to be computed; on every error the reservation stays.
  Result<void> submit(SequenceRequest request, int kv_tokens = 0);
  void cancel(
      RequestId id);  // its blocks are free at once; a plan in flight drops its rows' results
  StepPlan plan();    // call commit() before the next plan()
  // samples[i] belongs to the i-th planned sequence with wants_sample, in order.
  std::vector<SequenceUpdate> commit(const StepPlan& plan, std::span<const TokenId> samples);
  void abandon(const StepPlan& plan);  // the step failed: its sequences are removed, their blocks
                                       // freed (not cached)

  // ---- requests that move between ranks ----
  // Shared, parked and reserved blocks are kept whatever others need. While they leave no room even
  // for the oldest request that runs, plan() may be empty until one of them is given back.

  // The full blocks of a request that goes on: they keep their content until end_share(id) or
  // cancel(id), also when it is preempted or finishes. May be repeated as it grows; blocks told
  // earlier are kept, too. Error kNotFound: unknown, or it has no KV here.
  Result<HeldKv> share(RequestId id);
  void end_share(RequestId id);  // ignored if it shares nothing
  // Between commit() and plan(): the request is planned no more and never preempted, its place and
  // its blocks stay as they are (the last one may be partly filled). Repeated: the same again.
  // Error kNotFound: unknown, over, or without KV (waiting).
  Result<HeldKv> park(RequestId id);
  // A parked one goes on where it stood; cancel() lets it go instead. If all places were taken
  // meanwhile, the youngest is preempted. Ignored if it is not parked.
  void resume(RequestId id);
  // Between commit() and plan(): num_blocks > 0 more blocks for a request that will come, for the
  // positions behind those of its earlier ones. Cached prefixes may go for them. Error kExhausted:
  // not so many are available without preempting or taking what running ones may soon need.
  Result<std::vector<BlockId>> reserve(RequestId id, int num_blocks);
  std::vector<BlockId> reservation(RequestId id) const;  // all of them, in order of positions
  void drop_reservation(RequestId id);  // not done by cancel(): copies may still come

  // ---- the number of KV blocks ----
  // Both between commit() and plan(). Blocks from num_blocks on are given out no more, and no more
  // than num_blocks are used in all. When there are too few for what runs, the youngest are
  // preempted. Errors (nothing changes): kExhausted (a request alone might come not to fit, or the
  // oldest running one beside parked, reserved and shared blocks does not), kInvalidInput (none).
  Result<void> set_num_blocks(int num_blocks);
  // Used blocks from the limit on, still in the way. compact() moves up to max_copies of them below
  // it: the caller copies their bytes before the next plan. Cached ones were forgotten. Shared,
  // parked and reserved blocks do not move, because others know their numbers: they stay in the way
  // until they are given back.
  int num_above_limit() const;
  struct BlockCopy {
    BlockId from, to;
  };
  std::vector<BlockCopy> compact(int max_copies);

  const SchedulerStats& stats() const;
  std::vector<RequestId> requests() const;  // by arrival
  // Leading tokens of `prompt` found in the prefix cache now.
  int cached_prefix_tokens(std::span<const TokenId> prompt) const;
  // Forces the preemption of the youngest running sequence (tests). False if none can be.
  bool preempt_one();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The content hash of a full block: chained over the blocks before it. The controller uses the same
// to know which rank has a prefix.
uint64_t block_hash(uint64_t parent_hash, std::span<const TokenId> tokens);

}  // namespace fasteep
