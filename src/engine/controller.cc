#include "engine/controller.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "rank/messages.h"

namespace fasteep {
namespace {

RouterOptions router_options(const EngineOptions& options) {
  RouterOptions router;
  router.block_tokens = options.block_size;
  router.prefix_cache = options.enable_prefix_caching;
  router.max_running = options.max_num_seqs;
  router.max_requests = options.max_num_seqs + options.max_waiting_requests;
  return router;
}

FinishReason to_finish(api::End end) {
  return end == api::END_STOP ? FinishReason::kStop : FinishReason::kLength;
}

}  // namespace

Result<std::unique_ptr<Controller>> Controller::create(boost::asio::io_context& loop,
                                                       const EngineOptions& options) {
  FASTEEP_TRY(const Machine machine, read_machine());
  FASTEEP_TRY(InstancePlan plan, plan_instance(options, machine));
  return std::unique_ptr<Controller>(new Controller(loop, options, std::move(plan)));
}

Controller::Controller(boost::asio::io_context& loop, const EngineOptions& options,
                       InstancePlan plan)
    : loop_(loop), router_(router_options(options)) {
  group_ = std::make_unique<RankGroup>(loop, std::move(plan), options.rank_program, system_clock(),
                                       group_events());
}

Controller::~Controller() = default;

RankGroup::Events Controller::group_events() {
  RankGroup::Events events;
  events.on_progress = [this](const StartProgress& progress) {
    if (progress_) progress_(progress);
  };
  events.on_started = [this](Result<void> started) { on_started(std::move(started)); };
  events.on_updates = [this](RankId rank, const api::Updates& updates) {
    on_updates(rank, updates);
  };
  events.on_stats = [this](RankId rank, const api::Stats& stats) { on_stats(rank, stats); };
  events.on_unreachable = [this](RankId rank) { router_.remove_rank(rank); };
  events.on_lost = [this](RankId rank, const Error& error) { on_lost(rank, error); };
  events.on_all_gone = [this] { on_all_gone(); };
  return events;
}

void Controller::later(std::function<void()> function) {
  boost::asio::post(loop_, [alive = std::weak_ptr(alive_), function = std::move(function)] {
    if (!alive.expired()) function();
  });
}

void Controller::on_stats(RankId rank, const api::Stats& stats) {
  metrics_.on_stats(rank, stats, block_tokens());
  RankStatus& status = group_->status(rank);
  status.running = stats.running();
  status.waiting = stats.waiting();
  status.kv_tokens_used = int64_t{stats.blocks_used()} * block_tokens();
}

// ---- start ----

void Controller::start(Progress progress, std::function<void(Result<void>)> done) {
  progress_ = std::move(progress);
  on_started_ = std::move(done);
  group_->start();
}

void Controller::on_started(Result<void> started) {
  for (const RankId rank : group_->active_ranks()) {
    router_.add_rank(rank, group_->kv_tokens(rank));
    const RankStatus& status = group_->status(rank);
    metrics_.set_memory(rank, status.kv_tokens, status.bytes_by_tag);
    metrics_.on_stats(rank, {}, 0);
  }
  metrics_.set_instance(static_cast<int>(group_->active_ranks().size()), group_->epoch());
  auto done = std::exchange(on_started_, nullptr);
  if (done) done(std::move(started));
}

// ---- requests ----

Result<void> Controller::check_submittable(const GenerateRequest& request) const {
  if (is_draining_) return make_error(ErrorCode::kUnavailable, "the instance is draining");
  if (!group_->is_serving()) {
    return Error(ErrorCode::kUnavailable, group_->not_ready_reason());
  }
  if (request.prompt.empty()) return invalid_input("the prompt is empty").on_field("prompt");
  if (request.max_tokens < 1) {
    return invalid_input("max_tokens is {}; at least 1", request.max_tokens).on_field("max_tokens");
  }
  const int vocab = plan().config.vocab_size;
  const auto bad = std::ranges::find_if(request.prompt,
                                        [&](TokenId token) { return token < 0 || token >= vocab; });
  if (bad != request.prompt.end()) {
    return invalid_input("token {} is outside the vocabulary of {}", *bad, vocab)
        .on_field("prompt");
  }
  const size_t longest = static_cast<size_t>(plan().max_model_len);
  if (request.prompt.size() + static_cast<size_t>(request.max_tokens) > longest) {
    return invalid_input("{} prompt tokens and {} to generate exceed the maximum length of {}",
                         request.prompt.size(), request.max_tokens, longest)
        .on_field("max_tokens");
  }
  return {};
}

Result<RequestId> Controller::submit(GenerateRequest request, Stream stream) {
  FASTEEP_TRY_VOID(check_submittable(request));
  FASTEEP_TRY(const RankId rank, router_.choose(request.prompt));
  JournalEntry& entry = journal_.add(std::move(request), std::move(stream), rank);
  router_.on_assigned(rank, entry.request.prompt, entry.kv_tokens());
  group_->send(rank, submit_message(entry));
  return entry.id;
}

api::ToRank Controller::submit_message(const JournalEntry& entry) const {
  const GenerateRequest& request = entry.request;
  SequenceRequest sequence;
  sequence.id = entry.id;
  sequence.prompt = request.prompt;
  sequence.prompt.insert(sequence.prompt.end(), entry.delivered.begin(), entry.delivered.end());
  sequence.num_delivered = static_cast<int>(entry.delivered.size());
  sequence.max_tokens = request.max_tokens;
  sequence.sampling = request.sampling;
  sequence.stop_token_ids = request.stop_token_ids;
  if (!request.ignore_eos) {
    const std::vector<TokenId>& eos = plan().generation.eos_ids;
    sequence.stop_token_ids.insert(sequence.stop_token_ids.end(), eos.begin(), eos.end());
  }
  sequence.logits_digest = request.logits_digest;
  api::ToRank message;
  fill(sequence, *message.mutable_submit());
  return message;
}

// The rank's copy of the request ends elsewhere: by cancel, or it is over there already.
JournalEntry Controller::take(RequestId id) {
  JournalEntry entry = journal_.take(id);
  std::vector<TokenId> sequence = entry.request.prompt;
  sequence.insert(sequence.end(), entry.delivered.begin(), entry.delivered.end());
  router_.on_ended(entry.rank, sequence, entry.kv_tokens());
  later([this] { go_on_ending(); });
  return entry;
}

void Controller::cancel(RequestId id) {
  if (!journal_.find(id)) return;
  const RankId rank = take(id).rank;
  api::ToRank message;
  message.mutable_cancel()->set_id(id.value);
  group_->send(rank, message);
}

// ---- tokens ----

void Controller::on_updates(RankId rank, const api::Updates& updates) {
  metrics_.set_requests(rank, updates.running(), updates.waiting());
  group_->status(rank).running = updates.running();
  group_->status(rank).waiting = updates.waiting();
  for (const api::Update& update : updates.updates()) {
    const Result<void> done = on_update(rank, update);
    if (!done) return group_->declare_broken(rank, done.error());
  }
}

// Errors: the rank says what cannot be.
Result<void> Controller::on_update(RankId rank, const api::Update& update) {
  const RequestId id(update.id());
  JournalEntry* entry = journal_.find(id);
  if (!entry) return {};  // cancelled meanwhile
  if (update.has_error()) {
    end_with_error(id, to_error(update.error()));
    return {};
  }
  FASTEEP_TRY(Sample sample, to_sample(update));
  if (update.index() < 0 || update.index() > static_cast<int>(entry->delivered.size())) {
    return invalid_input("rank {} sent token {} of request {} after {}", rank, update.index(), id,
                         entry->delivered.size());
  }
  if (journal_.deliver(*entry, update.index(), update.token()) == Delivery::kDuplicate) return {};
  entry->cached_prompt_tokens = update.cached_prompt_tokens();
  StreamEvent event;
  event.tokens.push_back({std::move(sample), update.logits_digest()});
  event.cached_prompt_tokens = entry->cached_prompt_tokens;
  if (update.end() == api::END_NONE) {
    deliver(id, event);
    return {};
  }
  event.finish = to_finish(update.end());
  if (update.end() == api::END_STOP) event.stop_token = update.token();
  end(id, std::move(event));
  return {};
}

// The stream may cancel its own request: it is called while its entry may vanish.
void Controller::deliver(RequestId id, const StreamEvent& event) {
  JournalEntry* entry = journal_.find(id);
  Stream stream = std::move(entry->stream);
  stream(event);
  entry = journal_.find(id);
  if (entry) entry->stream = std::move(stream);
}

void Controller::end(RequestId id, StreamEvent last) {
  const JournalEntry entry = take(id);
  last.cached_prompt_tokens = entry.cached_prompt_tokens;
  entry.stream(last);
}

void Controller::end_with_error(RequestId id, const Error& error) {
  StreamEvent last;
  last.finish = FinishReason::kError;
  last.error = error;
  end(id, std::move(last));
}

// ---- losses and the end ----

void Controller::on_lost(RankId rank, const Error& error) {
  metrics_.on_lost(rank);
  metrics_.set_instance(static_cast<int>(group_->active_ranks().size()), group_->epoch());
  for (const RequestId id : journal_.on_rank(rank)) {
    if (journal_.find(id)) end_with_error(id, error);  // an earlier stream may have cancelled it
  }
  later([this] { go_on_ending(); });
}

void Controller::on_unserviceable(std::function<void()> callback) {
  on_unserviceable_ = std::move(callback);
}

// After the last request has ended: what was waiting for that happens.
void Controller::go_on_ending() {
  if (journal_.size() > 0) return;
  if (is_draining_) return group_->stop();
  if (!group_->has_lost_experts()) return;
  auto callback = std::exchange(on_unserviceable_, nullptr);
  if (callback) callback();
}

void Controller::drain(std::function<void()> done) {
  on_ended_.push_back(std::move(done));
  is_draining_ = true;
  later([this] { is_ended_ ? on_all_gone() : go_on_ending(); });
}

void Controller::stop(std::function<void()> done) {
  drain(std::move(done));
  later([this] {
    for (const RequestId id : journal_.ids()) {
      if (!journal_.find(id)) continue;
      end_with_error(id, make_error(ErrorCode::kUnavailable, "the server is shutting down"));
    }
    group_->stop();
  });
}

void Controller::on_all_gone() {
  is_ended_ = is_draining_;
  if (!is_draining_) return;
  for (auto& done : std::exchange(on_ended_, {})) done();
}

// ---- state ----

EngineStatus Controller::status() const {
  EngineStatus status;
  status.ready = group_->is_serving() && !is_draining_;
  status.draining = is_draining_;
  status.not_ready_reason = is_draining_ ? "the instance is draining" : group_->not_ready_reason();
  status.epoch = group_->epoch();
  for (const auto& [rank, rank_status] : group_->statuses()) {
    status.ranks.push_back(rank_status);
    status.running += rank_status.running;
    status.waiting += rank_status.waiting;
  }
  return status;
}

// Idle ranks were last heard when they became idle, yet they may have served others since: the next
// reader finds what they answer now.
std::string Controller::metrics_text() const {
  group_->ask_for_stats();
  return metrics_.text();
}

}  // namespace fasteep
