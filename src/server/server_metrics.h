#pragma once
// Counters and histograms of requests, under vLLM's names.
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <string>

#include "engine/engine.h"

namespace fasteep {

// Threads: the server's.
class ServerMetrics {
 public:
  explicit ServerMetrics(const std::string& model_name);

  void on_prompt(int64_t prompt_tokens);
  void on_first_token(double seconds_since_arrival);
  // Tokens of one event, `gap_s` after the event before it.
  void on_more_tokens(int64_t num_tokens, double gap_s);
  void on_tokens(int64_t num_tokens);
  void on_finish(FinishReason reason, double seconds_since_arrival);

  std::string text() const;  // Prometheus text format

 private:
  prometheus::Registry registry_;
  prometheus::Counter* prompt_tokens_;
  prometheus::Counter* generation_tokens_;
  prometheus::Histogram* time_to_first_token_s_;
  prometheus::Histogram* inter_token_latency_s_;
  prometheus::Histogram* time_per_output_token_s_;
  prometheus::Histogram* request_latency_s_;
  std::array<prometheus::Counter*, 4> finished_;  // by FinishReason
};

}  // namespace fasteep
