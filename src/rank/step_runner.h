#pragma once
// One step of a rank: forward pass, sampling, commit, and what the controller is told.
#include <span>
#include <vector>

#include "rank/api.pb.h"
#include "rank/rank_core.h"

namespace fasteep {

// xxh64 of a row's float32 bits, as clients see it.
uint64_t logits_digest(std::span<const float> logits);

// Threads: the step thread. Buffers keep their size: nothing but the plan's own vectors allocates
// per step.
class StepRunner {
 public:
  explicit StepRunner(RankCore& core) : core_(core) {}

  // Runs the plan and adds what came of it to `updates`. When the forward pass fails, all its
  // sequences end with that error; a stop that was requested (kCancelled) ends none.
  void run(const StepPlan& plan, api::Updates& updates);

 private:
  void gather(const StepPlan& plan);
  void sample_rows();
  void commit(const StepPlan& plan, api::Updates& updates);
  void fail(const StepPlan& plan, const Error& error, api::Updates& updates);
  std::span<const float> logits_row(size_t index) const;

  RankCore& core_;
  // Of the step, by sequence:
  std::vector<TokenId> tokens_;  // [rows]
  std::vector<BatchSequence> sequences_;
  // By row that is sampled:
  std::vector<const PlannedSequence*> sampled_;
  std::vector<int> logit_rows_;
  std::vector<float> logits_;  // [sampled, vocab]
  std::vector<Sample> samples_;
  std::vector<uint64_t> digests_;
  std::vector<TokenId> sample_tokens_;
};

}  // namespace fasteep
