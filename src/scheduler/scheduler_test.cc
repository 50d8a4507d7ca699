#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace fasteep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr SchedulerOptions kOptions{
    .max_num_seqs = 4,
    .max_num_batched_tokens = 8,
    .block_tokens = 4,
    .num_blocks = 16,
    .max_model_len = 32,
};

// `count` tokens first, first + 1, ...
std::vector<TokenId> counting(int count, TokenId first = 100) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

SequenceRequest request(uint64_t id, std::vector<TokenId> prompt, int max_tokens) {
  return {.id = RequestId(id), .prompt = std::move(prompt), .max_tokens = max_tokens};
}

// "1:0+4s" is request 1, first position 0, 4 rows, wants a sample.
std::string text(const StepPlan& plan) {
  std::string out;
  for (const PlannedSequence& s : plan.sequences)
    out += fmt::format("{}{}:{}+{}{}", out.empty() ? "" : " ", s.id, s.first_position,
                       s.tokens.size(), s.wants_sample ? "s" : "");
  return out;
}

// Plans and commits one step in which every sample is `token`.
struct Step {
  std::string plan;
  std::vector<SequenceUpdate> updates;
};
Step step(Scheduler& scheduler, TokenId token = 1) {
  const StepPlan plan = scheduler.plan();
  const auto wanted = std::count_if(plan.sequences.begin(), plan.sequences.end(),
                                    [](const PlannedSequence& s) { return s.wants_sample; });
  const std::vector<TokenId> samples(static_cast<size_t>(wanted), token);
  return {text(plan), scheduler.commit(plan, samples)};
}

Error error_of(Scheduler& scheduler, SequenceRequest bad) {
  const Result<void> result = scheduler.submit(std::move(bad));
  EXPECT_FALSE(result.has_value());
  return result ? Error(ErrorCode::kIo, "none") : result.error();
}

TEST(Scheduler, GeneratesUntilMaxTokens) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(3), 2)));
  Step first = step(scheduler, 7);
  EXPECT_EQ(first.plan, "1:0+3s");
  ASSERT_EQ(first.updates.size(), 1u);
  EXPECT_EQ(first.updates[0].index, 0);
  EXPECT_EQ(first.updates[0].token, 7);
  EXPECT_EQ(first.updates[0].end, SequenceEnd::kNone);
  Step second = step(scheduler, 8);
  EXPECT_EQ(second.plan, "1:3+1s");
  EXPECT_EQ(second.updates.at(0).index, 1);
  EXPECT_EQ(second.updates.at(0).end, SequenceEnd::kLength);
  EXPECT_TRUE(scheduler.plan().empty());
  EXPECT_EQ(scheduler.stats().blocks_used, 0);
}

TEST(Scheduler, DeliversTheStopTokenAndEnds) {
  Scheduler scheduler(kOptions);
  SequenceRequest stopping = request(1, counting(3), 9);
  stopping.stop_token_ids = {5, 6};
  ASSERT_TRUE(scheduler.submit(stopping));
  EXPECT_EQ(step(scheduler, 7).updates.at(0).end, SequenceEnd::kNone);
  const SequenceUpdate last = step(scheduler, 6).updates.at(0);
  EXPECT_EQ(last.token, 6);
  EXPECT_EQ(last.end, SequenceEnd::kStop);
  EXPECT_THAT(scheduler.requests(), IsEmpty());
}

TEST(Scheduler, EndsAtMaxModelLen) {
  SchedulerOptions options = kOptions;
  options.max_model_len = 5;
  Scheduler scheduler(options);
  ASSERT_TRUE(scheduler.submit(request(1, counting(3), 1000)));
  EXPECT_EQ(step(scheduler).updates.at(0).end, SequenceEnd::kNone);
  EXPECT_EQ(step(scheduler).updates.at(0).end, SequenceEnd::kLength);
}

TEST(Scheduler, PrefillChunksShareTheBudgetWithDecodes) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(2), 9)));
  EXPECT_EQ(step(scheduler).plan, "1:0+2s");
  ASSERT_TRUE(scheduler.submit(request(2, counting(10, 200), 9)));
  ASSERT_TRUE(scheduler.submit(request(3, counting(6, 300), 9)));
  EXPECT_EQ(step(scheduler).plan, "1:2+1s 2:0+7");
  EXPECT_EQ(step(scheduler).plan, "1:3+1s 2:7+3s 3:0+4");
  EXPECT_EQ(step(scheduler).plan, "1:4+1s 2:10+1s 3:4+2s");
}

TEST(Scheduler, DecodesComeFirstEvenIfYounger) {
  SchedulerOptions options = kOptions;
  options.prefill_chunk = 3;
  Scheduler scheduler(options);
  ASSERT_TRUE(scheduler.submit(request(1, counting(20), 9)));
  ASSERT_TRUE(scheduler.submit(request(2, counting(2, 200), 9)));
  EXPECT_EQ(step(scheduler).plan, "1:0+3 2:0+2s");
  EXPECT_EQ(step(scheduler).plan, "2:2+1s 1:3+3");
}

TEST(Scheduler, BlocksAreTakenAsPositionsComeNotInAdvance) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(4), 20)));
  step(scheduler);
  EXPECT_EQ(scheduler.stats().blocks_used, 1);
  step(scheduler);
  EXPECT_EQ(scheduler.stats().blocks_used, 2);
}

TEST(Scheduler, AFullHitStillComputesTheLastPromptToken) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(8), 1)));
  step(scheduler);
  EXPECT_EQ(scheduler.cached_prefix_tokens(counting(8)), 8);
  ASSERT_TRUE(scheduler.submit(request(2, counting(8), 1)));
  const Step hit = step(scheduler);
  EXPECT_EQ(hit.plan, "2:4+4s");
  EXPECT_EQ(hit.updates.at(0).cached_prompt_tokens, 4);
  ASSERT_TRUE(scheduler.submit(request(3, counting(9), 1)));
  EXPECT_EQ(step(scheduler).plan, "3:8+1s");
  EXPECT_EQ(scheduler.stats().prefix_hit_tokens, 12u);
  EXPECT_EQ(scheduler.stats().prefix_query_tokens, 25u);
}

TEST(Scheduler, GeneratedTokensAreCachedAsBlocksFill) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(3), 4)));
  step(scheduler, 50);
  EXPECT_EQ(scheduler.cached_prefix_tokens(std::vector{100, 101, 102, 50}), 0);
  step(scheduler, 51);
  EXPECT_EQ(scheduler.cached_prefix_tokens(std::vector{100, 101, 102, 50}), 4);
  EXPECT_EQ(scheduler.cached_prefix_tokens(std::vector{100, 101, 102, 51}), 0);
}

TEST(Scheduler, WithoutPrefixCacheNothingIsKept) {
  SchedulerOptions options = kOptions;
  options.prefix_cache = false;
  Scheduler scheduler(options);
  ASSERT_TRUE(scheduler.submit(request(1, counting(8), 1)));
  step(scheduler);
  EXPECT_EQ(scheduler.stats().blocks_cached, 0);
  ASSERT_TRUE(scheduler.submit(request(2, counting(8), 1)));
  EXPECT_EQ(step(scheduler).plan, "2:0+8s");
}

TEST(Scheduler, PromptsComputedTogetherAreSharedAfterwards) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(4), 9)));
  ASSERT_TRUE(scheduler.submit(request(2, counting(4), 9)));
  EXPECT_EQ(step(scheduler).plan, "1:0+4s 2:0+4s");
  EXPECT_EQ(scheduler.stats().blocks_used, 1);
}

TEST(Scheduler, PreemptsTheYoungestAndRecomputesIt) {
  SchedulerOptions options = kOptions;
  options.num_blocks = 4;
  options.max_model_len = 17;
  options.prefix_cache = false;
  Scheduler scheduler(options);
  ASSERT_TRUE(scheduler.submit(request(1, counting(4), 9)));
  ASSERT_TRUE(scheduler.submit(request(2, counting(3, 200), 9)));
  EXPECT_EQ(step(scheduler).plan, "1:0+4s 2:0+3s");
  for (int i = 0; i < 4; ++i) step(scheduler);  // 8 and 7 positions: all 4 blocks are used
  EXPECT_EQ(step(scheduler).plan, "1:8+1s");
  EXPECT_EQ(scheduler.stats().preemptions, 1u);
  EXPECT_EQ(scheduler.stats().waiting, 1);
  while (scheduler.stats().running == 1 && scheduler.stats().waiting == 1) step(scheduler);
  EXPECT_EQ(step(scheduler).plan, "2:0+8s") << "prompt and the 5 generated tokens";
}

TEST(Scheduler, APreemptedSequenceGoesBeforeTheQueue) {
  SchedulerOptions options = kOptions;
  options.max_num_seqs = 2;
  Scheduler scheduler(options);
  for (uint64_t id : {1, 2, 3})
    ASSERT_TRUE(scheduler.submit(request(id, counting(3, static_cast<TokenId>(id) * 100), 9)));
  step(scheduler);
  EXPECT_TRUE(scheduler.preempt_one());
  EXPECT_THAT(scheduler.requests(), ElementsAre(RequestId(1), RequestId(2), RequestId(3)));
  EXPECT_EQ(step(scheduler).plan, "1:3+1s 2:0+4s");
}

TEST(Scheduler, TheOldestIsNeverPreempted) {
  Scheduler scheduler(kOptions);
  EXPECT_FALSE(scheduler.preempt_one());
  ASSERT_TRUE(scheduler.submit(request(1, counting(3), 9)));
  step(scheduler);
  EXPECT_FALSE(scheduler.preempt_one());
}

TEST(Scheduler, AdmissionLeavesAWatermark) {
  SchedulerOptions options = kOptions;
  options.num_blocks = 3;
  options.max_model_len = 13;
  Scheduler scheduler(options);
  ASSERT_TRUE(scheduler.submit(request(1, counting(2), 3)));
  ASSERT_TRUE(scheduler.submit(request(2, counting(6, 200), 1)));
  EXPECT_EQ(step(scheduler).plan, "1:0+2s") << "2 blocks are free, 2 needs both";
  step(scheduler);
  step(scheduler);
  EXPECT_EQ(step(scheduler).plan, "2:0+6s");
}

TEST(Scheduler, NobodyOvertakesTheHeadOfTheQueue) {
  SchedulerOptions options = kOptions;
  options.num_blocks = 3;
  options.max_model_len = 13;
  Scheduler scheduler(options);
  ASSERT_TRUE(scheduler.submit(request(1, counting(2), 9)));
  ASSERT_TRUE(scheduler.submit(request(2, counting(6, 200), 1)));
  ASSERT_TRUE(scheduler.submit(request(3, counting(1, 300), 1)));
  EXPECT_EQ(step(scheduler).plan, "1:0+2s");
}

TEST(Scheduler, CancelFreesBlocksAtOnceAndDropsResults) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(3), 9)));
  ASSERT_TRUE(scheduler.submit(request(2, counting(3, 200), 9)));
  const StepPlan plan = scheduler.plan();
  scheduler.cancel(RequestId(1));
  EXPECT_EQ(scheduler.stats().blocks_used, 1);
  ASSERT_TRUE(scheduler.submit(request(1, counting(3, 300), 9))) << "the same id again";
  const auto updates = scheduler.commit(plan, std::vector<TokenId>{11, 22});
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates[0].id, RequestId(2));
  EXPECT_EQ(updates[0].token, 22);
  EXPECT_EQ(step(scheduler).plan, "2:3+1s 1:0+3s");
  scheduler.cancel(RequestId(99));  // unknown: ignored
}

TEST(Scheduler, CancelWorksOnWaitingRequests) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(3), 9)));
  scheduler.cancel(RequestId(1));
  EXPECT_TRUE(scheduler.plan().empty());
}

TEST(Scheduler, AbandonRemovesTheStepsSequencesAndCachesNothing) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(12), 9)));
  step(scheduler);
  EXPECT_EQ(scheduler.cached_prefix_tokens(counting(12)), 8);
  scheduler.abandon(scheduler.plan());
  EXPECT_THAT(scheduler.requests(), IsEmpty());
  EXPECT_EQ(scheduler.stats().blocks_free, kOptions.num_blocks);
  EXPECT_EQ(scheduler.cached_prefix_tokens(counting(12)), 0);
  ASSERT_TRUE(scheduler.submit(request(1, counting(12), 9)));
  EXPECT_EQ(step(scheduler).plan, "1:0+8");
}

TEST(Scheduler, AbandonSparesAnIdSubmittedAgainMeanwhile) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(3), 9)));
  const StepPlan plan = scheduler.plan();
  scheduler.cancel(RequestId(1));
  ASSERT_TRUE(scheduler.submit(request(1, counting(3, 300), 9)));
  scheduler.abandon(plan);
  EXPECT_THAT(scheduler.requests(), ElementsAre(RequestId(1)));
}

TEST(Scheduler, NoMoreRunThanAStepHasRows) {
  SchedulerOptions options = kOptions;
  options.max_num_batched_tokens = 2;
  Scheduler scheduler(options);
  for (uint64_t id : {1, 2, 3}) ASSERT_TRUE(scheduler.submit(request(id, {1}, 9)));
  EXPECT_EQ(step(scheduler).plan, "1:0+1s 2:0+1s");
  EXPECT_EQ(step(scheduler).plan, "1:1+1s 2:1+1s");
}

TEST(Scheduler, AVictimDoesNotComeBackInTheSameStep) {
  SchedulerOptions options = kOptions;
  options.num_blocks = 5;
  options.prefix_cache = false;
  Scheduler scheduler(options);
  ASSERT_TRUE(scheduler.submit(request(1, counting(1), 9)));
  ASSERT_TRUE(scheduler.submit(request(2, counting(15, 200), 5)));
  for (int i = 0; i < 4; ++i) step(scheduler);  // 4 and 16 positions: all 5 blocks are used
  EXPECT_EQ(step(scheduler).plan, "1:4+1s");
  EXPECT_EQ(step(scheduler).plan, "1:5+1s 2:0+7") << "its chunk and the watermark fit";
}

TEST(Scheduler, AResumedRequestGoesOnCounting) {
  Scheduler scheduler(kOptions);
  SequenceRequest resumed = request(1, counting(5), 4);
  resumed.num_delivered = 2;
  ASSERT_TRUE(scheduler.submit(resumed));
  const SequenceUpdate third = step(scheduler).updates.at(0);
  EXPECT_EQ(third.index, 2);
  EXPECT_EQ(third.end, SequenceEnd::kNone);
  EXPECT_EQ(step(scheduler).updates.at(0).end, SequenceEnd::kLength);
}

TEST(Scheduler, OnlyRowsThatWantASampleCarrySampling) {
  Scheduler scheduler(kOptions);
  SequenceRequest seeded = request(1, counting(10), 9);
  seeded.sampling.seed = 77;
  seeded.logits_digest = true;
  ASSERT_TRUE(scheduler.submit(seeded));
  step(scheduler);
  const StepPlan plan = scheduler.plan();
  EXPECT_EQ(plan.sequences.at(0).sampling.seed, 77u);
  EXPECT_TRUE(plan.sequences.at(0).logits_digest);
}

TEST(Scheduler, RefusesWhatCanNeverFit) {
  SchedulerOptions options = kOptions;
  options.num_blocks = 3;
  Scheduler scheduler(options);
  const Error blocks = error_of(scheduler, request(1, counting(8), 6));
  EXPECT_EQ(blocks.code(), ErrorCode::kInvalidInput);
  EXPECT_THAT(blocks.message(), HasSubstr("8 prompt tokens and 6 to generate need 4 KV blocks of 4 "
                                          "tokens, the rank has 3"));
  EXPECT_TRUE(scheduler.submit(request(1, counting(8), 5))) << "the 13th token needs no KV";
  const Error length = error_of(scheduler, request(2, counting(32), 1));
  EXPECT_EQ(length.code(), ErrorCode::kInvalidInput);
  EXPECT_THAT(length.message(), HasSubstr("at most 31"));
}

TEST(Scheduler, RefusesRequestsThatMakeNoSense) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(3), 1)));
  EXPECT_THAT(error_of(scheduler, request(1, counting(3), 1)).message(), HasSubstr("here already"));
  EXPECT_THAT(error_of(scheduler, request(2, {}, 1)).message(), HasSubstr("empty"));
  EXPECT_THAT(error_of(scheduler, request(2, counting(3), 0)).message(), HasSubstr("max_tokens"));
  SequenceRequest done = request(2, counting(3), 2);
  done.num_delivered = 2;
  EXPECT_THAT(error_of(scheduler, done).message(), HasSubstr("nothing is left"));
  done.num_delivered = 3;
  EXPECT_EQ(error_of(scheduler, done).code(), ErrorCode::kInvalidInput);
}

TEST(Scheduler, AFullQueueSaysTryLater) {
  SchedulerOptions options = kOptions;
  options.max_waiting = 1;
  Scheduler scheduler(options);
  ASSERT_TRUE(scheduler.submit(request(1, counting(3), 1)));
  EXPECT_EQ(error_of(scheduler, request(2, counting(3), 1)).code(), ErrorCode::kExhausted);
  step(scheduler);
  EXPECT_TRUE(scheduler.submit(request(2, counting(3), 1)));
}

TEST(Scheduler, AThousandLongPromptsWaitAtNoCost) {
  const SchedulerOptions options{
      .max_num_batched_tokens = 2048, .num_blocks = 4096, .max_model_len = 8192};
  Scheduler scheduler(options);
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(scheduler.submit(request(static_cast<uint64_t>(i), counting(4096, i * 4096), 1)));
  int steps = 0;
  while (scheduler.stats().running + scheduler.stats().waiting > 0) {
    step(scheduler);
    ++steps;
  }
  EXPECT_EQ(steps, 2000);
  EXPECT_EQ(scheduler.stats().prompt_tokens, 4096000u);
}

TEST(SchedulerDeathTest, PlansAreCommittedOneByOne) {
  Scheduler scheduler(kOptions);
  ASSERT_TRUE(scheduler.submit(request(1, counting(3), 9)));
  const StepPlan plan = scheduler.plan();
  EXPECT_DEATH(scheduler.plan(), "before the last plan");
  EXPECT_DEATH(scheduler.commit(StepPlan{}, {}), "another one of 1 is in flight");
  EXPECT_DEATH(scheduler.commit(plan, {}), "0 samples for a plan that wants 1");
}

}  // namespace
}  // namespace fasteep
