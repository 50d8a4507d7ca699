// Random submits, cancels, hand-overs, preemptions and failed steps against FakeModel: every
// request yields the tokens of its undisturbed run, whatever the options and the company.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "base/rng.h"
#include "scheduler/fake_model.h"
#include "scheduler/scheduler.h"

namespace fasteep {
namespace {

using Tokens = std::vector<TokenId>;

bool contains(const Tokens& tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

// A scheduler, its model, and what is known about the requests from outside.
class World {
 public:
  explicit World(const SchedulerOptions& options)
      : options_(options), scheduler_(options), model_(options) {}

  bool idle() const { return live_.empty(); }
  uint64_t preemptions() const { return scheduler_.stats().preemptions; }
  const std::vector<std::string>& transcript() const { return transcript_; }

  void submit_any(Rng& rng);
  void cancel_any(Rng& rng);
  void hand_over_any(Rng& rng);
  void preempt();
  // Plans, lets `meanwhile` happen, and commits.
  template <class Meanwhile>
  void step(Meanwhile meanwhile);
  void fail_step();
  // Until everything is finished, within the steps that FIFO progress allows.
  void drain();

 private:
  struct Live {
    SequenceRequest request;  // as submitted
    Tokens tokens;            // prompt and everything generated
    Tokens expected;          // the undisturbed run, prompt included
    SequenceEnd expected_end;
    int cached_tokens = -1;  // of the first plan; -1: not planned yet
    int prompt_tokens() const {
      return static_cast<int>(request.prompt.size()) - request.num_delivered;
    }
    int num_generated() const { return static_cast<int>(tokens.size()) - prompt_tokens(); }
  };

  void submit(SequenceRequest request);
  void predict(Live& live) const;
  bool is_valid(const SequenceRequest& request) const;
  void check_plan(const StepPlan& plan, uint64_t preemptions_before);
  void deliver(const SequenceUpdate& update);
  void check_accounts();
  void forget(RequestId id) {
    live_.erase(id);
    decoding_.erase(id);
  }
  RequestId any_live(Rng& rng) {
    return std::next(live_.begin(), static_cast<int64_t>(rng.below(live_.size())))->first;
  }

  SchedulerOptions options_;
  Scheduler scheduler_;
  FakeModel model_;
  std::map<RequestId, Live> live_;  // ids grow with arrival
  std::set<RequestId> decoding_;    // surely: got a token, not preempted since
  uint64_t next_id_ = 1;
  std::vector<std::string> transcript_;
};

void World::predict(Live& live) const {
  live.expected = live.tokens;
  int generated = live.request.num_delivered;
  live.expected_end = SequenceEnd::kNone;
  while (live.expected_end == SequenceEnd::kNone) {
    const TokenId next = FakeModel::next_token(live.expected);
    live.expected.push_back(next);
    ++generated;
    if (contains(live.request.stop_token_ids, next))
      live.expected_end = SequenceEnd::kStop;
    else if (generated == live.request.max_tokens ||
             std::ssize(live.expected) == options_.max_model_len)
      live.expected_end = SequenceEnd::kLength;
  }
}

bool World::is_valid(const SequenceRequest& request) const {
  const int length = static_cast<int>(request.prompt.size());
  if (length >= options_.max_model_len) return false;
  const int longest =
      std::min(length + request.max_tokens - request.num_delivered, options_.max_model_len);
  return longest - 1 <= options_.num_blocks * options_.block_tokens;
}

void World::submit(SequenceRequest request) {
  request.id = RequestId(next_id_++);
  const bool is_full = scheduler_.stats().waiting >= options_.max_waiting;
  const Result<void> accepted = scheduler_.submit(request);
  require(accepted.has_value() == (is_valid(request) && !is_full), "submit answered wrongly");
  if (!accepted) return;
  Live live{.request = request, .tokens = request.prompt};
  predict(live);
  live_.emplace(request.id, std::move(live));
}

// Prompts begin with a piece of one of three texts, so that many share blocks.
void World::submit_any(Rng& rng) {
  SequenceRequest request;
  const uint64_t text = rng.below(3);
  const uint64_t shared = rng.below(30), own = rng.below(6);
  for (uint64_t i = 0; i < shared; ++i)
    request.prompt.push_back(static_cast<TokenId>(
        philox4x32({static_cast<uint32_t>(i)}, {static_cast<uint32_t>(text)})[0] %
        FakeModel::kVocabSize));
  for (uint64_t i = 0; i <= own; ++i)
    request.prompt.push_back(static_cast<TokenId>(rng.below(FakeModel::kVocabSize)));
  request.max_tokens = 1 + static_cast<int>(rng.below(25));
  if (rng.below(3) == 0) request.stop_token_ids = {static_cast<TokenId>(rng.below(9))};
  submit(std::move(request));
}

void World::cancel_any(Rng& rng) {
  if (idle()) return;
  const RequestId id = any_live(rng);
  scheduler_.cancel(id);
  forget(id);
}

// As after the loss of a rank: the same request comes again with the tokens delivered so far.
void World::hand_over_any(Rng& rng) {
  if (idle()) return;
  const RequestId id = any_live(rng);
  SequenceRequest again = live_.at(id).request;
  again.prompt = live_.at(id).tokens;
  again.num_delivered = live_.at(id).num_generated();
  const Tokens expected = live_.at(id).expected;
  scheduler_.cancel(id);
  forget(id);
  submit(std::move(again));
  const auto found = live_.find(RequestId(next_id_ - 1));
  if (found != live_.end()) require(found->second.expected == expected, "the model is impure");
}

void World::preempt() {
  const SchedulerStats before = scheduler_.stats();
  require(scheduler_.preempt_one() == (before.running > 1), "preempt_one answered wrongly");
  decoding_.clear();
}

void World::check_plan(const StepPlan& plan, uint64_t preemptions_before) {
  std::set<RequestId> ids;
  for (const PlannedSequence& rows : plan.sequences) {
    ids.insert(rows.id);
    Live& live = live_.at(rows.id);
    if (live.cached_tokens < 0)
      live.cached_tokens = std::min(rows.first_position, live.prompt_tokens());
  }
  bool may_be_planned = true;
  for (const auto& [id, live] : live_) {
    require(may_be_planned || live.cached_tokens < 0, "overtaken in the queue");
    may_be_planned = live.cached_tokens >= 0;
  }
  require(idle() || ids.contains(live_.begin()->first), "the oldest request makes no progress");
  if (preemptions() == preemptions_before)
    for (const RequestId id : decoding_) require(ids.contains(id), "a decode got no row");
  decoding_.clear();
}

void World::deliver(const SequenceUpdate& update) {
  require(live_.contains(update.id), "a token for a request that is gone");
  Live& live = live_.at(update.id);
  require(update.index == live.num_generated(), "a token twice or out of order");
  require(update.token == live.expected.at(live.tokens.size()), "not the undisturbed token");
  require(update.cached_prompt_tokens == live.cached_tokens, "cached_prompt_tokens is wrong");
  live.tokens.push_back(update.token);
  const bool is_last = live.tokens.size() == live.expected.size();
  require(update.end == (is_last ? live.expected_end : SequenceEnd::kNone), "the end is wrong");
  is_last ? forget(update.id) : void(decoding_.insert(update.id));
}

template <class Meanwhile>
void World::step(Meanwhile meanwhile) {
  const uint64_t preemptions_before = preemptions();
  const StepPlan plan = scheduler_.plan();
  check_plan(plan, preemptions_before);
  std::map<RequestId, Tokens> tokens_of;
  for (const auto& [id, live] : live_) tokens_of[id] = live.tokens;
  const Tokens samples = model_.run(plan, tokens_of);
  for (const PlannedSequence& rows : plan.sequences)
    transcript_.push_back(
        fmt::format("{}@{}+{}", rows.id, rows.first_position, rows.tokens.size()));
  meanwhile();
  for (const SequenceUpdate& update : scheduler_.commit(plan, samples)) deliver(update);
  check_accounts();
}

void World::fail_step() {
  const StepPlan plan = scheduler_.plan();  // its rows are not computed
  scheduler_.abandon(plan);
  for (const PlannedSequence& rows : plan.sequences) forget(rows.id);
  decoding_.clear();
  check_accounts();
}

void World::check_accounts() {
  const SchedulerStats& stats = scheduler_.stats();
  require(stats.blocks_used + stats.blocks_cached + stats.blocks_free == options_.num_blocks,
          "blocks do not add up");
  require(stats.running + stats.waiting == std::ssize(live_), "requests do not add up");
  require(options_.prefix_cache || stats.blocks_cached == 0, "cached without a cache");
  require(!idle() || stats.blocks_used == 0, "blocks leak");
  std::vector<RequestId> ids;
  for (const auto& [id, live] : live_) ids.push_back(id);
  require(scheduler_.requests() == ids, "requests() is not those alive by arrival");
}

// The oldest request gets a row in every step and is never preempted.
void World::drain() {
  size_t steps = 0;
  for (const auto& [id, live] : live_) steps += live.expected.size();
  for (; !idle() && steps > 0; --steps) step([] {});
  require(idle(), "some request starves");
}

SchedulerOptions any_options(Rng& rng) {
  const int chunks[] = {0, 1, 7, 64};
  SchedulerOptions options;
  options.max_num_seqs = 1 + static_cast<int>(rng.below(8));
  options.max_num_batched_tokens = 1 + static_cast<int>(rng.below(rng.below(2) ? 8 : 64));
  options.block_tokens = 1 + static_cast<int>(rng.below(8));
  options.num_blocks = 4 + static_cast<int>(rng.below(40));
  options.max_model_len = 2 + static_cast<int>(rng.below(64));
  options.max_waiting = 1 + static_cast<int>(rng.below(30));
  options.prefill_chunk = chunks[rng.below(4)];
  options.prefix_cache = rng.below(4) != 0;
  return options;
}

// One event of the outside world, chosen by rng.
void disturb(World& world, Rng& rng) {
  switch (rng.below(8)) {
    case 0:
      return world.cancel_any(rng);
    case 1:
      return world.hand_over_any(rng);
    case 2:
      return world.preempt();
    default:
      return world.submit_any(rng);
  }
}

void operate(World& world, Rng& rng) {
  switch (rng.below(12)) {
    case 0:
      return world.step([&] { disturb(world, rng); });
    case 1:
      return rng.below(4) == 0 ? world.fail_step() : world.step([] {});
    case 2:
    case 3:
    case 4:
    case 5:
      return disturb(world, rng);
    default:
      return world.step([] {});
  }
}

// Each operation is a number that seeds its own choices, so that RapidCheck may drop operations.
void play(World& world, const std::vector<uint32_t>& operations) {
  for (const uint32_t operation : operations) {
    Rng rng(operation, 1);
    operate(world, rng);
  }
  world.drain();
}

RC_GTEST_PROP(SchedulerProperty, DisturbancesChangeNoToken,
              (uint32_t seed, std::vector<uint32_t> operations)) {
  Rng rng(seed);
  World world(any_options(rng));
  play(world, operations);
}

RC_GTEST_PROP(SchedulerProperty, TheSameCallsGiveTheSamePlans,
              (uint32_t seed, std::vector<uint32_t> operations)) {
  Rng rng(seed);
  const SchedulerOptions options = any_options(rng);
  World one(options), other(options);
  play(one, operations);
  play(other, operations);
  RC_ASSERT(one.transcript() == other.transcript());
}

// Longer than RapidCheck's lists, and with so few blocks that preemption is the rule.
TEST(SchedulerProperty, SurvivesLongPressure) {
  SchedulerOptions options{.max_num_seqs = 8,
                           .max_num_batched_tokens = 24,
                           .block_tokens = 4,
                           .num_blocks = 24,
                           .max_model_len = 64,
                           .max_waiting = 50};
  uint64_t preemptions = 0;
  for (const int chunk : {0, 1, 7}) {
    options.prefill_chunk = chunk;
    World world(options);
    std::vector<uint32_t> operations(3000);
    for (size_t i = 0; i < operations.size(); ++i) operations[i] = static_cast<uint32_t>(i);
    play(world, operations);
    preemptions += world.preemptions();
  }
  EXPECT_GT(preemptions, 100u);
}

}  // namespace
}  // namespace fasteep
