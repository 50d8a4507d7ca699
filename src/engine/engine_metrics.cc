#include "engine/engine_metrics.h"

#include <prometheus/text_serializer.h>

namespace fasteep {
namespace {

prometheus::Labels of_rank(const char* label, RankId rank) {
  return {{label, fmt::format("{}", rank)}};
}

constexpr char kEngine[] = "engine";  // vLLM's label of a data-parallel rank
constexpr char kRank[] = "rank";

}  // namespace

EngineMetrics::GaugeFamily& EngineMetrics::gauge(const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_);
}

void EngineMetrics::add_counter(const char* name, const char* help, const char* label,
                                uint64_t (api::Stats::*value)() const,
                                prometheus::Labels more_labels) {
  counters_.push_back({&counter(name, help), label, std::move(more_labels), value});
}

EngineMetrics::EngineMetrics()
    : registry_(
          std::make_shared<prometheus::Registry>(prometheus::Registry::InsertBehavior::Merge)),
      running_(gauge("vllm:num_requests_running", "Requests in the steps of a rank")),
      waiting_(gauge("vllm:num_requests_waiting", "Requests that wait for a place in a step")),
      kv_usage_(gauge("vllm:kv_cache_usage_perc", "Share of the KV blocks in use; 1 is full")),
      ranks_(gauge("eep_ranks", "Active ranks")),
      epoch_(gauge("eep_epoch", "Epoch of the newest view")),
      kv_tokens_(gauge("eep_rank_kv_tokens", "Tokens that fit a rank's KV blocks")),
      kv_tokens_used_(gauge("eep_rank_kv_tokens_used", "Tokens of blocks in use")),
      bytes_(gauge("eep_rank_bytes", "Memory granted to a rank's pools, by tag")),
      losses_(
          counter("eep_rank_losses_total", "Ranks that died or were given up while they served")),
      resize_running_(gauge("eep_resize_running", "1 while a resize runs")),
      adoption_lag_(gauge("eep_adoption_lag_seconds",
                          "From the newest view's publication to its adoption by a rank")),
      token_gap_(gauge("eep_resize_longest_token_gap_seconds",
                       "Longest time between two tokens of a stream during the last resize")),
      resizes_(counter("eep_resize_total", "Resizes by outcome")),
      phase_seconds_(counter("eep_resize_phase_seconds_total", "Time in the phases of resizes")),
      bytes_moved_(counter("eep_resize_bytes_moved_total", "Bytes copied by resizes, by tag")),
      requests_moved_(
          counter("eep_requests_moved_total", "Requests that left a retiring rank, by method")) {
  losses_.Add({});
  set_resize_running(false);
  token_gap_.Add({});
  for (const OperationOutcome outcome :
       {OperationOutcome::kSucceeded, OperationOutcome::kRolledBack}) {
    resizes_.Add({{"outcome", std::string(to_string(outcome))}});
  }
  add_scheduler_counters();
  add_exchange_counters();
}

EngineMetrics::CounterFamily& EngineMetrics::counter(const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_);
}

void EngineMetrics::add_scheduler_counters() {
  add_counter("vllm:num_preemptions_total", "Sequences preempted for want of KV blocks", kEngine,
              &api::Stats::preemptions);
  add_counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache",
              kEngine, &api::Stats::prefix_query_tokens);
  add_counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache", kEngine,
              &api::Stats::prefix_hit_tokens);
  add_counter("eep_steps_total", "Steps", kRank, &api::Stats::steps);
  add_counter("eep_prompt_tokens_total", "Prompt tokens admitted", kRank,
              &api::Stats::prompt_tokens);
  add_counter("eep_generated_tokens_total", "Tokens generated", kRank,
              &api::Stats::generated_tokens);
}

void EngineMetrics::add_exchange_counters() {
  const char* calls = "Calls between ranks for the experts of one layer";
  add_counter("eep_calls_total", calls, kRank, &api::Stats::calls_sent, {{"direction", "sent"}});
  add_counter("eep_calls_total", calls, kRank, &api::Stats::calls_served,
              {{"direction", "served"}});
  const char* rows = "Expert rows in those calls";
  add_counter("eep_rows_total", rows, kRank, &api::Stats::rows_sent, {{"direction", "sent"}});
  add_counter("eep_rows_total", rows, kRank, &api::Stats::rows_served, {{"direction", "served"}});
  add_counter("eep_refusals_total", "Rows refused because the expert was not held", kRank,
              &api::Stats::refusals);
  add_counter("eep_reasked_rows_total", "Rows asked of a second rank", kRank,
              &api::Stats::reasked_rows);
  add_counter("eep_late_answers_dropped_total", "Answers that nobody waited for any more", kRank,
              &api::Stats::late_answers_dropped);
  add_counter("eep_gathers_total", "Waits for calls known to be near", kRank, &api::Stats::gathers);
  add_counter("eep_gather_timeouts_total", "Such waits that were in vain", kRank,
              &api::Stats::gather_timeouts);
  add_counter("eep_sleeps_total", "Times a rank slept for want of work", kRank,
              &api::Stats::sleeps);
  add_counter("eep_layer_steps_total", "MoE layers run", kRank, &api::Stats::layer_steps);
}

void EngineMetrics::on_stats(RankId rank, const api::Stats& stats, int block_tokens) {
  const api::Stats& before = last_[rank];
  for (const RankCounter& counter : counters_) {
    prometheus::Labels labels = of_rank(counter.label, rank);
    labels.insert(counter.more_labels.begin(), counter.more_labels.end());
    const uint64_t now = (stats.*counter.value)(), then = (before.*counter.value)();
    counter.family->Add(labels).Increment(now > then ? static_cast<double>(now - then) : 0);
  }
  last_[rank] = stats;
  set_requests(rank, stats.running(), stats.waiting());
  const int blocks = stats.blocks_used() + stats.blocks_cached() + stats.blocks_free();
  kv_usage_.Add(of_rank(kEngine, rank))
      .Set(blocks > 0 ? static_cast<double>(stats.blocks_used()) / blocks : 0);
  kv_tokens_used_.Add(of_rank(kRank, rank))
      .Set(static_cast<double>(int64_t{stats.blocks_used()} * block_tokens));
}

void EngineMetrics::set_requests(RankId rank, int running, int waiting) {
  running_.Add(of_rank(kEngine, rank)).Set(running);
  waiting_.Add(of_rank(kEngine, rank)).Set(waiting);
}

void EngineMetrics::set_memory(RankId rank, int64_t kv_tokens,
                               const std::vector<std::pair<std::string, int64_t>>& bytes_by_tag) {
  kv_tokens_.Add(of_rank(kRank, rank)).Set(static_cast<double>(kv_tokens));
  for (const auto& [tag, bytes] : bytes_by_tag) {
    prometheus::Labels labels = of_rank(kRank, rank);
    labels["tag"] = tag;
    bytes_.Add(labels).Set(static_cast<double>(bytes));
  }
}

void EngineMetrics::set_instance(int num_active_ranks, Epoch epoch) {
  ranks_.Add({}).Set(num_active_ranks);
  epoch_.Add({}).Set(static_cast<double>(epoch.value));
}

void EngineMetrics::on_lost(RankId rank) {
  losses_.Add({}).Increment();
  on_exited(rank);
}

void EngineMetrics::on_exited(RankId rank) {
  api::Stats rest = last_[rank];
  for (auto set : {&api::Stats::set_running, &api::Stats::set_waiting, &api::Stats::set_blocks_used,
                   &api::Stats::set_blocks_cached, &api::Stats::set_blocks_free}) {
    (rest.*set)(0);
  }
  on_stats(rank, rest, 0);
  set_memory(rank, 0,
             {{"replicated", 0}, {"experts", 0}, {"kv", 0}, {"workspace", 0}, {"exchange", 0}});
  last_.erase(rank);
}

void EngineMetrics::set_resize_running(bool running) {
  resize_running_.Add({}).Set(running ? 1 : 0);
}

void EngineMetrics::on_resize_over(const OperationStatus& operation) {
  resizes_.Add({{"outcome", std::string(to_string(operation.outcome))}}).Increment();
  for (const OperationPhase& phase : operation.phases) {
    phase_seconds_.Add({{"phase", phase.name}}).Increment(phase.seconds);
  }
  for (const auto& [tag, bytes] : operation.bytes_moved) {
    bytes_moved_.Add({{"tag", tag}}).Increment(static_cast<double>(bytes));
  }
  token_gap_.Add({}).Set(operation.longest_token_gap_s);
}

void EngineMetrics::on_request_moved(KvMove method) {
  requests_moved_.Add({{"method", std::string(to_string(method))}}).Increment();
}

void EngineMetrics::on_adopted(const AdoptionLag& lag) {
  adoption_lag_.Add(of_rank(kEngine, lag.rank)).Set(lag.seconds);
}

std::string EngineMetrics::text() const {
  return prometheus::TextSerializer().Serialize(registry_->Collect());
}

}  // namespace fasteep
