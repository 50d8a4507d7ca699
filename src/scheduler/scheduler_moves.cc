// Requests that move between ranks, and the number of KV blocks.
#include <algorithm>
#include <utility>

#include "scheduler/scheduler_state.h"

namespace fasteep {

// A step under way may still write blocks that were given back since its plan.
void Scheduler::State::check_between_steps(const char* what) const {
  CHECK(in_flight.empty(), "{} while a step of {} sequences is in flight", what, in_flight.size());
}

Result<Sequence*> Scheduler::State::find_with_blocks(RequestId id) {
  const auto found = sequences.find(id);
  if (found == sequences.end())
    return make_error(ErrorCode::kNotFound, "request {} is not here: it may be over", id);
  Sequence& sequence = *found->second;
  if (waiting.contains(sequence.arrival()))
    return make_error(ErrorCode::kNotFound,
                      "request {} waits and has no KV here: submit it elsewhere instead", id);
  return &sequence;
}

Result<void> Scheduler::State::check_arriving(const SequenceRequest& request, int kv_tokens) const {
  const int64_t length = std::ssize(request.prompt);
  if (kv_tokens < 0 || kv_tokens >= length)
    return invalid_input(
        "the KV of {} tokens is said to be here: of {} tokens at least the last is to be computed",
        kv_tokens, length);
  const int64_t reserved = std::ssize(held.reservation(request.id));
  if (ceil_div(kv_tokens, options.block_tokens) > reserved)
    return invalid_input(
        "KV of {} tokens is not in the {} blocks reserved for request {}: reserve "
        "and fill {} blocks first",
        kv_tokens, reserved, request.id, ceil_div(kv_tokens, options.block_tokens));
  return {};
}

void Scheduler::State::start_arriving(SequenceRequest request, int kv_tokens) {
  const RequestId id = request.id;
  auto sequence =
      std::make_unique<Sequence>(std::move(request), --last_earlier_arrival, options.prefix_cache);
  auto taken = held.take_reservation(id, ceil_div(kv_tokens, options.block_tokens), blocks);
  sequence->adopt_computed(std::move(taken), kv_tokens, blocks);
  run_at_once(*sequence);
  sequences.emplace(id, std::move(sequence));
}

// Not by admission. If all places are taken, the youngest loses its own.
void Scheduler::State::run_at_once(Sequence& sequence) {
  enter_running(sequence);
  if (std::ssize(running) > most_running()) preempt_youngest();
}

// Whose numbers others know.
std::unordered_set<BlockId> Scheduler::State::pinned_blocks() const {
  std::unordered_set<BlockId> pinned;
  held.add_to(pinned);
  for (const auto& [arrival, sequence] : parked)
    pinned.insert(sequence->blocks().begin(), sequence->blocks().end());
  return pinned;
}

// Each request alone must fit, and the oldest that runs beside what cannot go.
Result<void> Scheduler::State::check_limit(int num_blocks) const {
  if (num_blocks < 1) return invalid_input("{} KV blocks: at least one is needed", num_blocks);
  for (const auto& [id, sequence] : sequences) {
    const int needed = blocks_needed(sequence->prompt_tokens(), sequence->request().max_tokens);
    if (needed > num_blocks)
      return make_error(ErrorCode::kExhausted,
                        "request {} may come to need {} KV blocks, more than {}: move it first", id,
                        needed, num_blocks);
  }
  std::unordered_set<BlockId> staying = pinned_blocks();
  if (!running.empty())
    staying.insert(running.front()->blocks().begin(), running.front()->blocks().end());
  if (std::ssize(staying) > num_blocks)
    return make_error(
        ErrorCode::kExhausted,
        "{} KV blocks are parked, reserved, shared or the oldest request's, more than "
        "{}: wait until requests have moved",
        staying.size(), num_blocks);
  return {};
}

Result<HeldKv> Scheduler::share(RequestId id) {
  State& s = *state_;
  FASTEEP_TRY(Sequence * sequence, s.find_with_blocks(id));
  const int full = sequence->num_computed() / s.options.block_tokens;
  const auto blocks = sequence->blocks().first(static_cast<size_t>(full));
  s.held.share(id, blocks, s.blocks);
  return HeldKv{{blocks.begin(), blocks.end()}, full * s.options.block_tokens};
}

void Scheduler::end_share(RequestId id) { state_->held.end_share(id, state_->blocks); }

Result<HeldKv> Scheduler::park(RequestId id) {
  State& s = *state_;
  s.check_between_steps("park()");
  FASTEEP_TRY(Sequence * sequence, s.find_with_blocks(id));
  if (s.parked.emplace(sequence->arrival(), sequence).second) std::erase(s.running, sequence);
  return HeldKv{{sequence->blocks().begin(), sequence->blocks().end()}, sequence->num_computed()};
}

void Scheduler::resume(RequestId id) {
  State& s = *state_;
  const auto found = s.sequences.find(id);
  if (found == s.sequences.end() || s.parked.erase(found->second->arrival()) == 0) return;
  s.run_at_once(*found->second);
}

Result<std::vector<BlockId>> Scheduler::reserve(RequestId id, int num_blocks) {
  State& s = *state_;
  s.check_between_steps("reserve()");
  CHECK(num_blocks > 0, "{} blocks to reserve for request {}", num_blocks, id);
  const int spare = s.blocks.num_available() - s.watermark();
  if (num_blocks > spare)
    return make_error(
        ErrorCode::kExhausted,
        "{} KV blocks are to be reserved for request {}, {} can be: try another rank, "
        "or later",
        num_blocks, id, std::max(spare, 0));
  return s.held.reserve(id, num_blocks, s.blocks);
}

std::vector<BlockId> Scheduler::reservation(RequestId id) const {
  const auto blocks = state_->held.reservation(id);
  return {blocks.begin(), blocks.end()};
}

void Scheduler::drop_reservation(RequestId id) {
  state_->held.drop_reservation(id, state_->blocks);
}

Result<void> Scheduler::set_num_blocks(int num_blocks) {
  State& s = *state_;
  s.check_between_steps("set_num_blocks()");
  FASTEEP_TRY_VOID(s.check_limit(num_blocks));
  while (s.blocks.num_used() > num_blocks) s.preempt_youngest();
  s.blocks.set_limit(num_blocks);
  s.options.num_blocks = num_blocks;
  return {};
}

int Scheduler::num_above_limit() const { return state_->blocks.num_above_limit(); }

std::vector<Scheduler::BlockCopy> Scheduler::compact(int max_copies) {
  State& s = *state_;
  s.check_between_steps("compact()");
  const std::unordered_set<BlockId> pinned = s.pinned_blocks();
  std::vector<BlockCopy> copies;
  std::unordered_map<BlockId, BlockId> moved;
  for (const Sequence* sequence : s.running)
    for (const BlockId block : sequence->blocks()) {
      if (std::ssize(copies) >= max_copies) break;
      if (block.value < s.options.num_blocks || pinned.contains(block) || moved.contains(block))
        continue;
      const BlockId to = s.blocks.move_below_limit(block);
      moved.emplace(block, to);
      copies.push_back({block, to});
    }
  for (Sequence* sequence : s.running) sequence->renumber(moved);
  return copies;
}

}  // namespace fasteep
