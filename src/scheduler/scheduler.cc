#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "scheduler/scheduler_state.h"

namespace fasteep {
namespace {

void check_options(const SchedulerOptions& o) {
  CHECK(o.max_num_seqs > 0, "max_num_seqs {}", o.max_num_seqs);
  CHECK(o.max_num_batched_tokens > 0, "max_num_batched_tokens {}", o.max_num_batched_tokens);
  CHECK(o.max_model_len > 1, "max_model_len {}", o.max_model_len);
  CHECK(o.max_waiting > 0, "max_waiting {}", o.max_waiting);
  CHECK(o.prefill_chunk >= 0, "prefill_chunk {}", o.prefill_chunk);
}

PlannedSequence planned(const Grant& grant) {
  const Sequence& sequence = *grant.sequence;
  const int first = sequence.num_computed();
  const auto rows =
      sequence.tokens().subspan(static_cast<size_t>(first), static_cast<size_t>(grant.rows));
  PlannedSequence out;
  out.id = sequence.id();
  out.first_position = first;
  out.tokens.assign(rows.begin(), rows.end());
  out.blocks.assign(sequence.blocks().begin(), sequence.blocks().end());
  out.wants_sample = first + grant.rows == sequence.length();
  if (out.wants_sample) out.sampling = sequence.request().sampling;
  out.logits_digest = sequence.request().logits_digest;
  return out;
}

}  // namespace

Scheduler::State::State(const SchedulerOptions& o)
    : options(o), blocks(o.num_blocks, o.block_tokens, &block_hash) {
  check_options(o);
}

int Scheduler::State::watermark() const {
  if (running.empty()) return 0;  // then nobody else can be hurt, and waiting would not help
  return std::max(ceil_div(options.num_blocks, 100), static_cast<int>(running.size()));
}

int Scheduler::State::blocks_needed(int64_t prompt_tokens, int max_tokens) const {
  const int64_t longest = std::min<int64_t>(prompt_tokens + max_tokens, options.max_model_len);
  return ceil_div(longest - 1, options.block_tokens);  // the last token needs no KV
}

Result<void> Scheduler::State::check_request(const SequenceRequest& request) const {
  const int64_t length = std::ssize(request.prompt);
  if (length == 0) return invalid_input("the prompt is empty: give at least one token");
  if (request.num_delivered < 0 || request.num_delivered >= length)
    return invalid_input("{} of {} prompt tokens are said to be generated", request.num_delivered,
                         length);
  if (request.max_tokens <= request.num_delivered)
    return invalid_input("max_tokens is {} and {} are generated already: nothing is left to do",
                         request.max_tokens, request.num_delivered);
  if (sequences.contains(request.id))
    return invalid_input("request {} is here already", request.id);
  return {};
}

// The longest it can get must fit, or it could run out of blocks alone, with nobody to preempt.
Result<void> Scheduler::State::check_fits(const SequenceRequest& request) const {
  const int64_t length = std::ssize(request.prompt);
  if (length >= options.max_model_len)
    return invalid_input(
        "the prompt has {} tokens: at most {} leave room to generate one within max-model-len {}",
        length, options.max_model_len - 1, options.max_model_len);
  const int needed = blocks_needed(length - request.num_delivered, request.max_tokens);
  if (needed > options.num_blocks) {
    const int64_t to_generate = std::min<int64_t>(
        int64_t{request.max_tokens} - request.num_delivered, options.max_model_len - length);
    return invalid_input(
        "{} prompt tokens and {} to generate need {} KV blocks of {} tokens, the rank has {}: "
        "shorten the prompt or lower max_tokens",
        length, to_generate, needed, options.block_tokens, options.num_blocks);
  }
  return {};
}

// Oldest first, so that a sequence without blocks preempts only those not granted rows yet. True if
// some was preempted.
bool Scheduler::State::grant_running(std::vector<Grant>& grants) {
  const uint64_t preemptions_before = stats.preemptions;
  const auto decodes = std::count_if(running.begin(), running.end(),
                                     [](const Sequence* s) { return s->num_uncomputed() == 1; });
  int prefill_rows = options.max_num_batched_tokens - static_cast<int>(decodes);
  for (size_t i = 0; i < running.size(); ++i) {
    Sequence& sequence = *running[i];
    const bool is_decode = sequence.num_uncomputed() == 1;
    int rows = is_decode ? 1 : std::min({sequence.num_uncomputed(), longest_chunk(), prefill_rows});
    if (rows == 0) continue;
    rows = take_blocks(sequence, rows);
    if (rows == 0) break;  // it was the youngest: it gave way itself, or must wait
    if (!is_decode) prefill_rows -= rows;
    grants.push_back({&sequence, rows, is_decode});
  }
  return stats.preemptions > preemptions_before;
}

// Makes room for up to `rows` rows, at least one unless the sequence itself is preempted (0). The
// last one that runs keeps its blocks and waits (0) while held blocks leave it no room.
int Scheduler::State::take_blocks(Sequence& sequence, int rows) {
  while (sequence.rows_that_fit(blocks) == 0) {
    const bool is_youngest = running.back() == &sequence;
    if (running.size() == 1) {
      CHECK(!parked.empty() || !held.empty(),
            "request {} was admitted and does not fit {} KV blocks", sequence.id(),
            options.num_blocks);
      return 0;
    }
    preempt_youngest();
    if (is_youngest) return 0;
  }
  rows = std::min(rows, sequence.rows_that_fit(blocks));
  sequence.allocate_for(rows, blocks);
  return rows;
}

void Scheduler::State::preempt_youngest() {
  Sequence& youngest = *running.back();
  running.pop_back();
  youngest.release(blocks);
  waiting.emplace(youngest.arrival(), &youngest);
  ++stats.preemptions;
}

void Scheduler::State::enter_running(Sequence& sequence) {
  const auto younger = std::find_if(running.begin(), running.end(), [&](const Sequence* other) {
    return other->arrival() > sequence.arrival();
  });
  running.insert(younger, &sequence);
}

// Only while a row is left: so no more run than a step has rows, and every decode always gets its
// one. The places of parked ones stay theirs.
void Scheduler::State::admit(std::vector<Grant>& grants) {
  int rows_left = options.max_num_batched_tokens;
  for (const Grant& grant : grants) rows_left -= grant.rows;
  while (!waiting.empty() && rows_left > 0 && num_with_blocks() < most_running()) {
    Sequence& sequence = *waiting.begin()->second;
    const int rows = try_admit(sequence, rows_left);
    if (rows == 0) return;  // nobody overtakes it
    waiting.erase(waiting.begin());
    enter_running(sequence);
    grants.push_back({&sequence, rows, sequence.num_uncomputed() == 1});
    rows_left -= rows;
  }
}

// Rows of its first chunk with their blocks taken, or 0: too few blocks now.
int Scheduler::State::try_admit(Sequence& sequence, int rows_left) {
  const std::vector<PrefixBlock> prefix = sequence.find_prefix(blocks);
  const int prefix_blocks = static_cast<int>(prefix.size());
  const int prefix_tokens = prefix_blocks * options.block_tokens;
  const int rows = std::min({sequence.length() - prefix_tokens, longest_chunk(), rows_left});
  const int new_blocks = ceil_div(prefix_tokens + rows, options.block_tokens) - prefix_blocks;
  const auto revived =
      std::count_if(prefix.begin(), prefix.end(),
                    [this](const PrefixBlock& block) { return !blocks.is_used(block.block); });
  if (new_blocks + watermark() > blocks.num_available() - revived) return 0;
  if (!sequence.cached_prompt_tokens()) count_first_admission(sequence, prefix_tokens);
  sequence.adopt_prefix(prefix, blocks);
  sequence.allocate_for(rows, blocks);
  return rows;
}

void Scheduler::State::count_first_admission(const Sequence& sequence, int prefix_tokens) {
  stats.prompt_tokens += static_cast<uint64_t>(sequence.prompt_tokens());
  if (!options.prefix_cache) return;
  stats.prefix_query_tokens += static_cast<uint64_t>(sequence.length());
  stats.prefix_hit_tokens += static_cast<uint64_t>(prefix_tokens);
}

// nullptr if it was cancelled after plan().
Sequence* Scheduler::State::in_flight_sequence(size_t index) {
  const auto found = sequences.find(in_flight[index].id);
  if (found == sequences.end() || found->second->arrival() != in_flight[index].arrival)
    return nullptr;
  return found->second.get();
}

// Takes in the step's result for one sequence; the sequence is gone if the update ends it.
std::optional<SequenceUpdate> Scheduler::State::advance(Sequence& sequence,
                                                        const PlannedSequence& rows,
                                                        TokenId sample) {
  sequence.set_planned_rows(0);
  sequence.mark_computed(static_cast<int>(rows.tokens.size()), blocks);
  if (!rows.wants_sample) return std::nullopt;
  SequenceUpdate update{.id = sequence.id(), .index = sequence.num_generated(), .token = sample};
  update.end = sequence.append(sample, options.max_model_len);
  update.cached_prompt_tokens = sequence.cached_prompt_tokens().value_or(0);
  ++stats.generated_tokens;
  if (update.end != SequenceEnd::kNone) {
    sequence.release(blocks);
    remove(sequence);
  }
  return update;
}

// It holds no blocks any more.
void Scheduler::State::remove(Sequence& sequence) {
  if (waiting.erase(sequence.arrival()) == 0 && parked.erase(sequence.arrival()) == 0)
    running.erase(std::find(running.begin(), running.end(), &sequence));
  sequences.erase(RequestId(sequence.id()));
}

// The plan must be the one in flight. Callers clear in_flight when they are done with it.
void Scheduler::State::check_in_flight(const StepPlan& plan) {
  const bool same =
      std::equal(plan.sequences.begin(), plan.sequences.end(), in_flight.begin(), in_flight.end(),
                 [](const PlannedSequence& p, const Flight& f) { return p.id == f.id; });
  CHECK(same, "a plan of {} sequences ends, another one of {} is in flight", plan.sequences.size(),
        in_flight.size());
}

Scheduler::Scheduler(const SchedulerOptions& options) : state_(std::make_unique<State>(options)) {}
Scheduler::~Scheduler() = default;

Result<void> Scheduler::submit(SequenceRequest request, int kv_tokens) {
  State& s = *state_;
  FASTEEP_TRY_VOID(s.check_request(request));
  FASTEEP_TRY_VOID(s.check_fits(request));
  if (kv_tokens != 0) {
    FASTEEP_TRY_VOID(s.check_arriving(request, kv_tokens));
    s.start_arriving(std::move(request), kv_tokens);
    return {};
  }
  if (std::ssize(s.waiting) >= s.options.max_waiting)
    return make_error(ErrorCode::kExhausted, "{} requests are waiting already: try again later",
                      s.waiting.size());
  const RequestId id = request.id;
  const uint64_t arrival = s.next_arrival++;
  auto sequence = std::make_unique<Sequence>(std::move(request), arrival, s.options.prefix_cache);
  s.waiting.emplace(arrival, sequence.get());
  s.sequences.emplace(id, std::move(sequence));
  return {};
}

void Scheduler::cancel(RequestId id) {
  end_share(id);
  const auto found = state_->sequences.find(id);
  if (found == state_->sequences.end()) return;
  found->second->release(state_->blocks);
  state_->remove(*found->second);
}

StepPlan Scheduler::plan() {
  State& s = *state_;
  CHECK(s.in_flight.empty(), "plan() before the last plan's commit() or abandon()");
  std::vector<Grant> grants;
  const bool preempted = s.grant_running(grants);
  if (!preempted) s.admit(grants);  // else the victim would come back at once
  std::stable_partition(grants.begin(), grants.end(), [](const Grant& g) { return g.is_decode; });
  StepPlan plan;
  plan.sequences.reserve(grants.size());
  for (const Grant& grant : grants) {
    plan.sequences.push_back(planned(grant));
    plan.num_rows += grant.rows;
    grant.sequence->set_planned_rows(grant.rows);
    s.in_flight.push_back({grant.sequence->id(), grant.sequence->arrival()});
  }
  return plan;
}

std::vector<SequenceUpdate> Scheduler::commit(const StepPlan& plan,
                                              std::span<const TokenId> samples) {
  State& s = *state_;
  s.check_in_flight(plan);
  const auto wanted = std::count_if(plan.sequences.begin(), plan.sequences.end(),
                                    [](const PlannedSequence& p) { return p.wants_sample; });
  CHECK(wanted == std::ssize(samples), "{} samples for a plan that wants {}", samples.size(),
        wanted);
  std::vector<SequenceUpdate> updates;
  updates.reserve(samples.size());
  size_t next_sample = 0;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& rows = plan.sequences[i];
    const TokenId sample = rows.wants_sample ? samples[next_sample++] : 0;
    Sequence* sequence = s.in_flight_sequence(i);
    if (!sequence || sequence->planned_rows() == 0) continue;  // cancelled or preempted meanwhile
    if (auto update = s.advance(*sequence, rows, sample)) updates.push_back(*update);
  }
  if (!plan.empty()) ++s.stats.steps;
  s.in_flight.clear();
  return updates;
}

void Scheduler::abandon(const StepPlan& plan) {
  State& s = *state_;
  s.check_in_flight(plan);
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    Sequence* sequence = s.in_flight_sequence(i);
    if (!sequence) continue;
    sequence->discard(s.blocks);
    s.remove(*sequence);
  }
  s.in_flight.clear();
}

const SchedulerStats& Scheduler::stats() const {
  State& s = *state_;
  s.stats.running = s.num_with_blocks();
  s.stats.parked = static_cast<int>(s.parked.size());
  s.stats.waiting = static_cast<int>(s.waiting.size());
  s.stats.blocks_used = s.blocks.num_used();
  s.stats.blocks_cached = s.blocks.num_cached();
  s.stats.blocks_free = s.blocks.num_free();
  return s.stats;
}

std::vector<RequestId> Scheduler::requests() const {
  std::map<uint64_t, RequestId> by_arrival;
  for (const auto& [id, sequence] : state_->sequences) by_arrival.emplace(sequence->arrival(), id);
  std::vector<RequestId> ids;
  for (const auto& [arrival, id] : by_arrival) ids.push_back(id);
  return ids;
}

int Scheduler::cached_prefix_tokens(std::span<const TokenId> prompt) const {
  return fasteep::cached_prefix_tokens(state_->blocks, prompt);
}

bool Scheduler::preempt_one() {
  if (state_->running.size() < 2) return false;
  state_->preempt_youngest();
  return true;
}

}  // namespace fasteep
