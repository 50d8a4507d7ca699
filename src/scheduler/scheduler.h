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
  // blocks).
  Result<void> submit(SequenceRequest request);
  void cancel(
      RequestId id);  // its blocks are free at once; a plan in flight drops its rows' results
  StepPlan plan();    // call commit() before the next plan()
  // samples[i] belongs to the i-th planned sequence with wants_sample, in order.
  std::vector<SequenceUpdate> commit(const StepPlan& plan, std::span<const TokenId> samples);
  void abandon(const StepPlan& plan);  // the step failed: its sequences are removed, their blocks
                                       // freed (not cached)

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
