#include "server/server_metrics.h"

#include <prometheus/text_serializer.h>

#include <array>
#include <sstream>

namespace fasteep {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using Labels = std::map<std::string, std::string>;

// vLLM's boundaries, in seconds.
const Buckets kFirstToken = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25, 0.5,
                             0.75,  1.0,   2.5,  5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0};
const Buckets kTokenGap = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,  0.15, 0.2,  0.3,
                           0.4,   0.5,    0.75,  1.0,  2.5,   5.0,  7.5,   10.0, 20.0, 40.0, 80.0};
const Buckets kRequest = {0.01, 0.1,  0.3,  0.5,  0.8,  1.0,  1.5,  2.0,   2.5,   5.0,
                          10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0};

prometheus::Counter* counter(prometheus::Registry& registry, const char* name, const char* help,
                             const Labels& labels) {
  return &prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
}

prometheus::Histogram* histogram(prometheus::Registry& registry, const char* name, const char* help,
                                 const Labels& labels, const Buckets& buckets) {
  return &prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels,
                                                                                    buckets);
}

}  // namespace

ServerMetrics::ServerMetrics(const std::string& model_name) {
  const Labels labels = {{"model_name", model_name}};
  prompt_tokens_ =
      counter(registry_, "vllm:prompt_tokens_total", "Number of prefill tokens processed.", labels);
  generation_tokens_ = counter(registry_, "vllm:generation_tokens_total",
                               "Number of generation tokens processed.", labels);
  time_to_first_token_s_ =
      histogram(registry_, "vllm:time_to_first_token_seconds",
                "Histogram of time to first token in seconds.", labels, kFirstToken);
  inter_token_latency_s_ =
      histogram(registry_, "vllm:inter_token_latency_seconds",
                "Histogram of inter-token latency in seconds.", labels, kTokenGap);
  time_per_output_token_s_ =
      histogram(registry_, "vllm:time_per_output_token_seconds",
                "Histogram of time per output token in seconds.", labels, kTokenGap);
  request_latency_s_ = histogram(registry_, "vllm:e2e_request_latency_seconds",
                                 "Histogram of e2e request latency in seconds.", labels, kRequest);
  for (int i = 0; i < static_cast<int>(finished_.size()); ++i) {
    Labels with_reason = labels;
    with_reason["finished_reason"] = std::string(to_string(static_cast<FinishReason>(i)));
    finished_[i] = counter(registry_, "vllm:request_success_total",
                           "Count of processed requests by the reason of their end.", with_reason);
  }
}

void ServerMetrics::on_prompt(int64_t prompt_tokens) {
  prompt_tokens_->Increment(static_cast<double>(prompt_tokens));
}

void ServerMetrics::on_first_token(double seconds_since_arrival) {
  time_to_first_token_s_->Observe(seconds_since_arrival);
}

void ServerMetrics::on_tokens(int64_t num_tokens) {
  generation_tokens_->Increment(static_cast<double>(num_tokens));
}

void ServerMetrics::on_more_tokens(int64_t num_tokens, double gap_s) {
  inter_token_latency_s_->Observe(gap_s);
  time_per_output_token_s_->Observe(gap_s / static_cast<double>(num_tokens));
}

void ServerMetrics::on_finish(FinishReason reason, double seconds_since_arrival) {
  finished_[static_cast<size_t>(reason)]->Increment();
  request_latency_s_->Observe(seconds_since_arrival);
}

std::string ServerMetrics::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, registry_.Collect());
  return out.str();
}

}  // namespace fasteep
