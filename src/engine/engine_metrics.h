#pragma once
// The engine's and its ranks' metrics. vLLM's names where it has the same thing, with its `engine`
// label for the rank; the rest begins with eep_.
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>

#include "base/ids.h"
#include "engine/elastic.h"
#include "rank/api.pb.h"

namespace fasteep {

// Threads: one.
class EngineMetrics {
 public:
  EngineMetrics();

  // What a rank says of itself. Its counters begin at 0 with each incarnation; the ones here go on.
  void on_stats(RankId rank, const api::Stats& stats, int block_tokens);
  void set_requests(RankId rank, int running, int waiting);
  void set_memory(RankId rank, int64_t kv_tokens,
                  const std::vector<std::pair<std::string, int64_t>>& bytes_by_tag);
  void set_instance(int num_active_ranks, Epoch epoch);
  // Its gauges fall to 0; its counters stay.
  void on_lost(RankId rank);
  void on_exited(RankId rank);  // the same of a rank that was told to end

  void set_resize_running(bool running);
  void on_resize_over(const OperationStatus& operation);
  void on_request_moved(KvMove method);
  void on_adopted(const AdoptionLag& lag);

  std::string text() const;

 private:
  using GaugeFamily = prometheus::Family<prometheus::Gauge>;
  using CounterFamily = prometheus::Family<prometheus::Counter>;
  struct RankCounter {  // one counter of api::Stats
    CounterFamily* family;
    const char* label;
    prometheus::Labels more_labels;
    uint64_t (api::Stats::*value)() const;
  };
  GaugeFamily& gauge(const char* name, const char* help);
  void add_counter(const char* name, const char* help, const char* label,
                   uint64_t (api::Stats::*value)() const, prometheus::Labels more_labels = {});
  void add_scheduler_counters();
  void add_exchange_counters();
  CounterFamily& counter(const char* name, const char* help);

  std::shared_ptr<prometheus::Registry> registry_;
  GaugeFamily &running_, &waiting_, &kv_usage_, &ranks_, &epoch_, &kv_tokens_, &kv_tokens_used_,
      &bytes_;
  CounterFamily& losses_;
  GaugeFamily &resize_running_, &adoption_lag_, &token_gap_;
  CounterFamily &resizes_, &phase_seconds_, &bytes_moved_, &requests_moved_;
  std::vector<RankCounter> counters_;
  std::map<RankId, api::Stats> last_;  // of the living incarnation
};

}  // namespace fasteep
