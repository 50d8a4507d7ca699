// The engine with real rank processes: equal tokens in every shape, cancelling, full queues, loss
// of a rank, and that nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/rng.h"
#include "rank/rank_process.h"
#include "tests/engine/instance.h"

namespace fasteep {
namespace {

using testing::HasSubstr;

std::vector<TokenId> random_prompt(Rng& rng, int length) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>(rng.below(500)));
  return prompt;
}

// Short and long prompts, every second one sampled, every fourth one beginning like the one before.
std::vector<GenerateRequest> mixed_requests(int count) {
  Rng rng(11);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < count; ++i) {
    GenerateRequest request;
    request.prompt = random_prompt(rng, 1 + static_cast<int>(rng.below(60)));
    if (i % 4 == 3) {
      const std::vector<TokenId>& before = requests.back().prompt;
      request.prompt.insert(request.prompt.begin(), before.begin(), before.end());
    }
    request.max_tokens = 2 + static_cast<int>(rng.below(12));
    request.ignore_eos = true;
    request.logits_digest = true;
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    request.sampling.top_p = 0.95f;
    request.sampling.seed = static_cast<uint64_t>(100 + i);
    requests.push_back(std::move(request));
  }
  return requests;
}

GenerateRequest long_request(TokenId first) {
  GenerateRequest request;
  request.prompt = {first, 2, 3};
  request.max_tokens = 480;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  return request;
}

bool has_children() { return waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

void expect_equal(const std::vector<Outcome>& got, const std::vector<Outcome>& expected,
                  const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i] == expected[i])
        << what << ": request " << i << " after " << got[i].tokens.size() << " tokens "
        << (got[i].error ? got[i].error->message() : std::string("without an error"));
    EXPECT_EQ(got[i].ends, 1) << what << ": request " << i;
  }
}

// The measure of all others: one rank, one request at a time, no prefix reused.
const std::vector<Outcome>& alone() {
  static const std::vector<Outcome> outcomes = [] {
    EngineOptions options = options_for(kFixture, 1);
    options.enable_prefix_caching = false;
    Instance instance(options);
    return instance.run_alone(mixed_requests(64));
  }();
  return outcomes;
}

class SameTokens : public testing::TestWithParam<int> {};

TEST_P(SameTokens, TogetherOnThisManyRanksAsAloneOnOne) {
  Instance instance(options_for(kFixture, GetParam()));
  ASSERT_FALSE(instance.error()) << instance.error()->message();
  expect_equal(instance.run_together(mixed_requests(64)), alone(), "together");
  EXPECT_TRUE(instance.drain());
}

INSTANTIATE_TEST_SUITE_P(EpSizes, SameTokens, testing::Values(1, 2, 3, 5, 8));

TEST(SameTokens, OutcomesDifferBetweenRequests) {
  std::vector<std::vector<TokenId>> distinct;
  for (const Outcome& outcome : alone()) distinct.push_back(outcome.tokens);
  std::ranges::sort(distinct);
  const auto repeated = std::ranges::unique(distinct);
  EXPECT_LT(repeated.size(), 16u) << "the comparison would mean little";
}

TEST(SameTokens, InSmallPrefillChunks) {
  EngineOptions options = options_for(kFixture, 2);
  options.max_prefill_chunk = 7;
  options.enable_prefix_caching = false;
  Instance instance(options);
  expect_equal(instance.run_together(mixed_requests(64)), alone(), "chunks of 7");
}

TEST(SameTokens, ThroughPreemption) {
  std::vector<GenerateRequest> requests = mixed_requests(8);
  for (GenerateRequest& request : requests) {
    request.prompt.resize(1);
    request.max_tokens = 100;
  }
  std::vector<Outcome> expected;
  {
    Instance roomy(options_for(kFixture, 1));
    expected = roomy.run_alone(requests);
  }
  EngineOptions options = options_for(kFixture, 1);
  options.max_model_len = 200;
  options.num_kv_blocks = 20;  // of the 56 that all would need at their ends
  Instance instance(options);
  ASSERT_FALSE(instance.error()) << instance.error()->message();
  expect_equal(instance.run_together(requests), expected, "20 blocks");
  instance.run_until([&] { return instance.metric("vllm:num_preemptions_total") > 0; });
}

TEST(SameTokens, WithPrefixHits) {
  Instance instance(options_for(kFixture, 2));
  std::vector<GenerateRequest> requests = mixed_requests(16);
  const std::vector<Outcome> first = instance.run_together(requests);
  const std::vector<Outcome> again = instance.run_alone(requests);
  expect_equal(again, first, "again");
  EXPECT_TRUE(std::ranges::any_of(again, [](const Outcome& o) {
    return o.cached_prompt_tokens > 0;
  })) << "nothing was hit";
}

TEST(SameTokens, OfTheBundledModelOnFourRanksWithReplicas) {
  const std::vector<GenerateRequest> requests = mixed_requests(12);
  std::vector<Outcome> expected;
  {
    Instance one(options_for(kTiny, 1));
    ASSERT_FALSE(one.error()) << one.error()->message();
    expected = one.run_alone(requests);
  }
  EngineOptions options = options_for(kTiny, 4);
  options.num_redundant_experts = 5;
  Instance four(options);
  expect_equal(four.run_together(requests), expected, "EP 4");
}

TEST(Requests, ACancelledOneHearsNothingMoreAndItsKvIsFree) {
  Instance instance(options_for(kFixture, 2));
  Outcome outcome;
  const auto id = instance.submit(long_request(1), outcome);
  ASSERT_TRUE(id);
  instance.run_until([&] { return outcome.tokens.size() >= 2; });
  EXPECT_EQ(instance.metric("vllm:num_requests_running"), 1);
  instance.controller().cancel(*id);
  const size_t heard = outcome.tokens.size();
  instance.run_until([&] {
    return instance.metric("vllm:num_requests_running") == 0 &&
           instance.metric("vllm:kv_cache_usage_perc") == 0;
  });
  EXPECT_EQ(outcome.tokens.size(), heard);
  EXPECT_EQ(outcome.ends, 0);
}

TEST(Requests, AFullQueueRefusesUntilThereIsRoom) {
  EngineOptions options = options_for(kFixture, 1);
  options.max_num_seqs = 1;
  options.max_waiting_requests = 1;
  Instance instance(options);
  Outcome first, second, third;
  ASSERT_TRUE(instance.submit(long_request(1), first));
  ASSERT_TRUE(instance.submit(long_request(2), second));
  const auto refused = instance.submit(long_request(3), third);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kExhausted);
  instance.run_until([&] { return first.ends == 1; });
  EXPECT_EQ(instance.run_together({long_request(3)}).front().tokens.size(), 480u);
  EXPECT_EQ(second.ends, 1);
}

TEST(Requests, WhatCannotBeServedIsRefusedByName) {
  Instance instance(options_for(kFixture, 1));
  Outcome outcome;
  GenerateRequest outside = long_request(100'000);
  EXPECT_EQ(instance.submit(outside, outcome).error().field(), "prompt");
  GenerateRequest too_long = long_request(1);
  too_long.max_tokens = 510;
  EXPECT_EQ(instance.submit(too_long, outcome).error().field(), "max_tokens");
  GenerateRequest empty;
  EXPECT_EQ(instance.submit(empty, outcome).error().field(), "prompt");
}

TEST(Requests, StopTokensAndLogprobsArriveWithTheToken) {
  Instance instance(options_for(kFixture, 1));
  GenerateRequest request = long_request(5);
  request.max_tokens = 8;
  const std::vector<TokenId> tokens = instance.run_together({request}).front().tokens;
  const auto stop = static_cast<size_t>(std::ranges::find(tokens, tokens[3]) - tokens.begin());
  request.stop_token_ids = {tokens[3]};
  request.sampling.num_logprobs = 2;
  std::vector<GeneratedToken> heard;
  StreamEvent last;
  ASSERT_TRUE(instance.controller().submit(request, [&](const StreamEvent& event) {
    heard.insert(heard.end(), event.tokens.begin(), event.tokens.end());
    last = event;
  }));
  instance.run_until([&] { return last.finish.has_value(); });
  EXPECT_EQ(*last.finish, FinishReason::kStop);
  EXPECT_EQ(last.stop_token, tokens[3]);
  ASSERT_EQ(heard.size(), stop + 1);
  ASSERT_EQ(heard.front().sample.top.size(), 2u);
  EXPECT_EQ(heard.front().sample.top.front().token, tokens[0]);
}

TEST(Loss, EveryStreamEndsOnceAndTheInstanceSaysWhy) {
  auto instance = std::make_unique<Instance>(options_for(kFixture, 3));
  bool is_over = false;
  instance->controller().on_unserviceable([&] { is_over = true; });
  std::vector<Outcome> outcomes(12);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    ASSERT_TRUE(instance->submit(long_request(static_cast<TokenId>(i)), outcomes[i]));
  }
  instance->run_until([&] {
    return std::ranges::all_of(outcomes, [](const Outcome& o) { return o.tokens.size() > 1; });
  });
  ASSERT_EQ(kill(instance->controller().status().ranks[1].pid, SIGKILL), 0);
  instance->run_until([&] { return is_over; });
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.ends, 1);
    if (outcome.finish == FinishReason::kLength) continue;  // it was done before
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->code(), ErrorCode::kPeerLost) << outcome.error->message();
  }
  EXPECT_FALSE(instance->controller().status().ready);
  EXPECT_THAT(instance->controller().status().not_ready_reason,
              HasSubstr("rank 1 died (signal 9); experts"));
  EXPECT_EQ(instance->controller().exit_status(), 3);
  Outcome refused;
  EXPECT_EQ(instance->submit(long_request(1), refused).error().code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(instance->drain());
  instance.reset();
  EXPECT_FALSE(has_children());
}

TEST(Loss, WithAReplicaOfEveryExpertTheOthersServeOn) {
  EngineOptions options = options_for(kFixture, 2);
  options.num_redundant_experts = 16;
  Instance instance(options);
  ASSERT_FALSE(instance.error()) << instance.error()->message();
  ASSERT_EQ(kill(instance.controller().status().ranks[0].pid, SIGKILL), 0);
  instance.run_until([&] { return instance.controller().exit_status() == 3; });
  EXPECT_TRUE(instance.controller().status().ready);
  EXPECT_EQ(instance.controller().status().epoch, Epoch(2));
  instance.run_until([&] { return instance.controller().status().ranks[0].state == "dead"; });
  expect_equal(instance.run_together(mixed_requests(64)), alone(), "after the loss");
}

TEST(Life, StoppingEndsEveryRequestOnceAndLeavesNoProcess) {
  auto instance = std::make_unique<Instance>(options_for(kFixture, 2));
  std::vector<Outcome> outcomes(4);
  for (Outcome& outcome : outcomes) ASSERT_TRUE(instance->submit(long_request(1), outcome));
  bool is_stopped = false;
  instance->controller().stop([&] { is_stopped = true; });
  instance->run_until([&] { return is_stopped; });
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.ends, 1);
    EXPECT_EQ(outcome.error->code(), ErrorCode::kUnavailable);
  }
  EXPECT_FALSE(has_children());
  EXPECT_EQ(instance->controller().exit_status(), 0);
}

TEST(Life, DrainingFinishesWhatWasAccepted) {
  Instance instance(options_for(kFixture, 2));
  Outcome outcome, refused;
  ASSERT_TRUE(instance.submit(long_request(1), outcome));
  bool is_drained = false;
  instance.controller().drain([&] { is_drained = true; });
  EXPECT_EQ(instance.submit(long_request(1), refused).error().code(), ErrorCode::kUnavailable);
  instance.run_until([&] { return is_drained; });
  EXPECT_EQ(outcome.tokens.size(), 480u);
  EXPECT_FALSE(has_children());
}

TEST(Life, AControllerThatIsDestroyedTakesItsRanksAlong) {
  { Instance instance(options_for(kFixture, 3)); }
  EXPECT_FALSE(has_children());
}

TEST(Start, FailsWithTheRanksOwnWordsAndLeavesNoProcess) {
  EngineOptions options = options_for(kFixture, 2);
  options.rank_program = "/bin/false";
  {
    Instance instance(options);
    ASSERT_TRUE(instance.error());
    EXPECT_THAT(instance.error()->message(), HasSubstr("exit status 1"));
  }
  EXPECT_FALSE(has_children());
}

TEST(Start, WhatIsMissingIsNamed) {
  EngineOptions options = options_for("/nonexistent", 1);
  EXPECT_THAT(Instance(options).error()->message(), HasSubstr("/nonexistent"));
  options = options_for(kFixture, 1);
  options.device_memory = 4 << 20;
  EXPECT_THAT(Instance(options).error()->message(), HasSubstr("--device-memory"));
  options = options_for(kFixture, 1);
  options.max_model_len = 100'000;
  EXPECT_THAT(Instance(options).error()->message(), HasSubstr("--max-model-len"));
  options = options_for(kFixture, 2);
  options.num_redundant_experts = 100;
  EXPECT_THAT(Instance(options).error()->message(), HasSubstr("--num-redundant-experts"));
}

}  // namespace
}  // namespace fasteep

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "rank") == 0) return fasteep::run_rank(std::atoi(argv[3]));
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
