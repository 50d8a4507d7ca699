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
  int running = 0, waiting = 0;
  int blocks_used = 0, blocks_cached = 0, blocks_free = 0;  // cached: unreferenced, reusable
  uint64_t preemptions = 0, prefix_hit_tokens = 0, prefix_query_tokens = 0, steps = 0;
  uint64_t prompt_tokens = 0, generated_tokens = 0;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();

  // Errors: kExhausted (queue full), kInvalidInput (does not fit max_model_len or all the KV
  // blocks). kv_tokens > 0: the KV of its first tokens lies in the blocks that were reserved for it
  // (reserve()); it runs at once, before all that wait, however long the queue is.
  Result<void> submit(SequenceRequest request, int kv_tokens = 0);
  void cancel(
      RequestId id);  // its blocks are free at once; a plan in flight drops its rows' results
  StepPlan plan();    // call commit() before the next plan()
  // samples[i] belongs to the i-th planned sequence with wants_sample, in order.
  std::vector<SequenceUpdate> commit(const StepPlan& plan, std::span<const TokenId> samples);
  void abandon(const StepPlan& plan);  // the step failed: its sequences are removed, their blocks
                                       // freed (not cached)

  // ---- requests that move between ranks ----
  // The full blocks of a request that goes on: they keep their content until end_share(id) or until
  // the request ends by cancel(), whatever else becomes of it. May be repeated as it grows. Error
  // kNotFound: unknown, or it has no KV here.
  Result<HeldKv> share(RequestId id);
  void end_share(RequestId id);
  // Between commit() and plan(): the request is planned no more, its blocks stay as they are
  // (the last one may be partly filled). Error kNotFound: unknown, over, or without KV (waiting).
  Result<HeldKv> park(RequestId id);
  void resume(RequestId id);  // a parked one goes on where it stood; cancel() lets it go instead
  // Blocks for a request that will come: at first these, later more in addition. In order of
  // positions. Error kExhausted: not so many are free without preempting.
  Result<std::vector<BlockId>> reserve(RequestId id, int num_blocks);
  void drop_reservation(RequestId id);

  // ---- the number of KV blocks ----
  // Blocks from num_blocks on are given out no more. When there are too few for what runs, the
  // youngest are preempted. Error kExhausted (nothing changes): a request, parked or reserved
  // blocks would not fit any more.
  Result<void> set_num_blocks(int num_blocks);
  // Used blocks from the limit on, still in the way. compact() moves up to max_copies of them below
  // it: the caller copies their bytes before the next plan. Cached ones were forgotten.
  int num_above_limit() const;
  struct BlockCopy {
    BlockId from, to;
  };
  std::vector<BlockCopy> compact(int max_copies);

  const SchedulerStats& stats() const;
  std::vector<RequestId> requests() const;
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
