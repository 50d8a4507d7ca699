#pragma once
// For tests: a model whose next token is a hash of all tokens before it, over a shadow of the KV
// blocks. Every step it checks what a real model would silently get wrong: that the context of each
// planned row lies in the blocks, and that nobody writes what another may read.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace fasteep {

// The KV of a position: depends on every token up to and including it.
inline uint64_t mix(uint64_t before, TokenId token) {
  uint64_t h = (before ^ static_cast<uint64_t>(token + 1)) * 0x9e3779b97f4a7c15u;
  return (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
}

class FakeModel {
 public:
  static constexpr int kVocabSize = 5;  // few, so that prefixes and stop tokens meet often

  explicit FakeModel(const SchedulerOptions& options);

  static TokenId next_token(uint64_t kv) { return static_cast<TokenId>((kv >> 20) % kVocabSize); }
  static TokenId next_token(const std::vector<TokenId>& tokens);

  // Runs the step and returns its samples. tokens_of: what each planned request's tokens are.
  // Throws std::logic_error, saying what is wrong with the plan.
  std::vector<TokenId> run(const StepPlan& plan,
                           const std::map<RequestId, std::vector<TokenId>>& tokens_of);

 private:
  void check_budgets(const StepPlan& plan) const;
  void check_rows(const PlannedSequence& rows, const std::vector<TokenId>& tokens) const;
  void check_context(const PlannedSequence& rows, const std::vector<TokenId>& tokens) const;
  void check_writers(const StepPlan& plan) const;
  uint64_t& kv(const PlannedSequence& rows, int position);
  uint64_t kv(const PlannedSequence& rows, int position) const;
  void write(const PlannedSequence& rows);

  SchedulerOptions options_;
  std::vector<uint64_t> kv_;  // [num_blocks, block_tokens]
};

// Stops the test with the text; RapidCheck shrinks on it.
void require(bool condition, const std::string& text);

}  // namespace fasteep
