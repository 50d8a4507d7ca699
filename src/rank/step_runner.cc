#include "rank/step_runner.h"

#include <xxhash.h>

#include <algorithm>

#include "rank/messages.h"

namespace fasteep {

uint64_t logits_digest(std::span<const float> logits) {
  return XXH64(logits.data(), logits.size_bytes(), 0);
}

std::span<const float> StepRunner::logits_row(size_t index) const {
  const auto vocab = static_cast<size_t>(core_.config().vocab_size);
  return std::span<const float>(logits_).subspan(index * vocab, vocab);
}

void StepRunner::gather(const StepPlan& plan) {
  tokens_.clear();
  sequences_.clear();
  sampled_.clear();
  logit_rows_.clear();
  for (const PlannedSequence& planned : plan.sequences) {
    const auto num_rows = static_cast<int>(planned.tokens.size());
    const auto first_row = static_cast<int>(tokens_.size());
    sequences_.push_back({first_row, num_rows, planned.first_position, planned.blocks});
    tokens_.insert(tokens_.end(), planned.tokens.begin(), planned.tokens.end());
    if (!planned.wants_sample) continue;
    sampled_.push_back(&planned);
    logit_rows_.push_back(first_row + num_rows - 1);
  }
  const size_t needed = sampled_.size() * static_cast<size_t>(core_.config().vocab_size);
  if (logits_.size() < needed) logits_.resize(needed);
}

void StepRunner::sample_rows() {
  samples_.resize(sampled_.size());
  digests_.assign(sampled_.size(), 0);
  const int vocab = core_.usable_vocab();
  const auto some = [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const PlannedSequence& planned = *sampled_[i];
      const int64_t position = planned.first_position + static_cast<int64_t>(planned.tokens.size());
      samples_[i] = sample(logits_row(i), vocab, planned.sampling, position);
      if (planned.logits_digest) digests_[i] = logits_digest(logits_row(i));
    }
  };
  core_.kernels().pool().parallel_for(static_cast<int64_t>(sampled_.size()), 1, some);
}

void StepRunner::commit(const StepPlan& plan, api::Updates& updates) {
  sample_tokens_.clear();
  for (const Sample& sample : samples_) sample_tokens_.push_back(sample.token);
  size_t at = 0;  // updates come in the plan's order; cancelled sequences have none
  for (const SequenceUpdate& update : core_.scheduler().commit(plan, sample_tokens_)) {
    while (at < sampled_.size() && sampled_[at]->id != update.id) ++at;
    CHECK(at < sampled_.size(), "an update of request {}, which was not sampled", update.id);
    fill(update, samples_[at], digests_[at], *updates.add_updates());
  }
}

void StepRunner::fail(const StepPlan& plan, const Error& error, api::Updates& updates) {
  if (error.code() == ErrorCode::kCancelled) return;
  core_.scheduler().abandon(plan);
  for (const PlannedSequence& planned : plan.sequences) {
    api::Update* update = updates.add_updates();
    update->set_id(planned.id.value);
    *update->mutable_error() = to_message(error);
  }
}

void StepRunner::run(const StepPlan& plan, api::Updates& updates) {
  gather(plan);
  core_.exchange().begin_step();
  const Span2<float> logits(logits_.data(), static_cast<int64_t>(sampled_.size()),
                            core_.config().vocab_size);
  const Result<void> done = core_.model().forward({tokens_, sequences_, logit_rows_}, logits);
  core_.exchange().end_step();
  if (!done) return fail(plan, done.error(), updates);
  if (!sampled_.empty())
    sample_rows();
  else
    samples_.clear();
  commit(plan, updates);
}

}  // namespace fasteep
