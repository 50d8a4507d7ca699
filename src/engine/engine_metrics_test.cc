#include "engine/engine_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fasteep {
namespace {

using testing::HasSubstr;

api::Stats stats_of(uint64_t preemptions, int running) {
  api::Stats stats;
  stats.set_preemptions(preemptions);
  stats.set_running(running);
  stats.set_blocks_used(1);
  stats.set_blocks_free(3);
  return stats;
}

TEST(EngineMetrics, CarriesVllmsNamesWithTheRankAsEngine) {
  EngineMetrics metrics;
  metrics.on_stats(RankId(2), stats_of(5, 3), 16);
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr("vllm:num_requests_running{engine=\"2\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("vllm:num_preemptions_total{engine=\"2\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("vllm:kv_cache_usage_perc{engine=\"2\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("eep_rank_kv_tokens_used{rank=\"2\"} 16\n"));
}

TEST(EngineMetrics, CountersGoOnOverARestartOfTheRank) {
  EngineMetrics metrics;
  metrics.on_stats(RankId(0), stats_of(5, 3), 16);
  metrics.on_lost(RankId(0));
  EXPECT_THAT(metrics.text(), HasSubstr("vllm:num_requests_running{engine=\"0\"} 0\n"));
  metrics.on_stats(RankId(0), stats_of(2, 1), 16);
  EXPECT_THAT(metrics.text(), HasSubstr("vllm:num_preemptions_total{engine=\"0\"} 7\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("eep_rank_losses_total 1\n"));
}

TEST(EngineMetrics, BothDirectionsOfCallsAreApart) {
  EngineMetrics metrics;
  api::Stats stats;
  stats.set_calls_sent(4);
  stats.set_calls_served(9);
  metrics.on_stats(RankId(1), stats, 16);
  EXPECT_THAT(metrics.text(), HasSubstr("eep_calls_total{direction=\"sent\",rank=\"1\"} 4\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("eep_calls_total{direction=\"served\",rank=\"1\"} 9\n"));
}

TEST(EngineMetrics, AResizeThatIsOverCountsByOutcomePhaseAndTag) {
  EngineMetrics metrics;
  metrics.set_resize_running(true);
  EXPECT_THAT(metrics.text(), HasSubstr("eep_resize_running 1\n"));
  OperationStatus operation;
  operation.outcome = OperationOutcome::kRolledBack;
  operation.phases = {{"prepare", 0, 1.5, 0}, {"rollback", 1.5, 0.25, 0}};
  operation.bytes_moved = {{"experts", 700}};
  operation.longest_token_gap_s = 0.125;
  metrics.on_resize_over(operation);
  metrics.on_resize_over(operation);
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr("eep_resize_total{outcome=\"rolled_back\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("eep_resize_total{outcome=\"succeeded\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("eep_resize_phase_seconds_total{phase=\"prepare\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("eep_resize_bytes_moved_total{tag=\"experts\"} 1400\n"));
  EXPECT_THAT(text, HasSubstr("eep_resize_longest_token_gap_seconds 0.125\n"));
}

TEST(EngineMetrics, ARankThatExitsAsToldIsNoLoss) {
  EngineMetrics metrics;
  metrics.on_stats(RankId(1), stats_of(5, 3), 16);
  metrics.on_exited(RankId(1));
  EXPECT_THAT(metrics.text(), HasSubstr("vllm:num_requests_running{engine=\"1\"} 0\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("eep_rank_losses_total 0\n"));
}

}  // namespace
}  // namespace fasteep
