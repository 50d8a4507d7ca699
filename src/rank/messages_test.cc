#include "rank/messages.h"

#include <gtest/gtest.h>

#include "placement/placement.h"

namespace fasteep {
namespace {

View three_ranks() {
  std::vector<Member> members = {
      {RankId(0), Incarnation(1)}, {RankId(1), Incarnation(4)}, {RankId(5), Incarnation(2)}};
  return *initial_view(Epoch(7), members, {{LayerId(1), LayerId(3)}, 8}, {2});
}

SequenceRequest a_request() {
  SequenceRequest request;
  request.id = RequestId(3);
  request.prompt = {1, 2, 3, 4};
  request.num_delivered = 1;
  request.max_tokens = 9;
  request.sampling = {
      .temperature = 0.5f, .top_p = 0.9f, .top_k = 4, .min_p = 0.1f, .seed = 77, .num_logprobs = 2};
  request.stop_token_ids = {9};
  request.logits_digest = true;
  return request;
}

api::Submit submit_message() {
  api::Submit message;
  fill(a_request(), message);
  return message;
}

TEST(Messages, AViewComesBackAsItWas) {
  const View view = three_ranks();
  auto back = to_view(to_message(view));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ((*back)->epoch(), view.epoch());
  EXPECT_TRUE(std::ranges::equal((*back)->members(), view.members()));
  for (const LayerId layer : view.shape().moe_layers) {
    for (int e = 0; e < view.shape().num_experts; ++e) {
      EXPECT_TRUE(std::ranges::equal((*back)->replicas(layer, ExpertId(e)),
                                     view.replicas(layer, ExpertId(e))));
    }
  }
}

TEST(Messages, AViewThatNamesStrangersIsRefused) {
  api::View message = to_message(three_ranks());
  message.mutable_replicas(0)->set_ranks(0, 99);
  EXPECT_FALSE(to_view(message));
}

TEST(Messages, AViewWithAHugeLayerIsRefusedWithoutMemory) {
  api::View message = to_message(three_ranks());
  message.set_moe_layers(1, 2'000'000'000);
  EXPECT_FALSE(to_view(message));
}

TEST(Messages, ARequestComesBackAsItWas) {
  auto back = to_sequence_request(submit_message(), 10);
  ASSERT_TRUE(back) << back.error().message();
  const SequenceRequest sent = a_request();
  EXPECT_EQ(back->id, sent.id);
  EXPECT_EQ(back->prompt, sent.prompt);
  EXPECT_EQ(back->num_delivered, sent.num_delivered);
  EXPECT_EQ(back->max_tokens, sent.max_tokens);
  EXPECT_EQ(back->sampling.seed, sent.sampling.seed);
  EXPECT_EQ(back->sampling.min_p, sent.sampling.min_p);
  EXPECT_EQ(back->stop_token_ids, sent.stop_token_ids);
  EXPECT_TRUE(back->logits_digest);
}

TEST(Messages, TokensOutsideTheVocabularyAreRefused) {
  EXPECT_FALSE(to_sequence_request(submit_message(), 4));
  api::Submit negative = submit_message();
  negative.set_prompt(0, -1);
  EXPECT_FALSE(to_sequence_request(negative, 10));
}

TEST(Messages, RequestsThatMakeNoSenseAreRefused) {
  api::Submit empty = submit_message();
  empty.clear_prompt();
  EXPECT_FALSE(to_sequence_request(empty, 10));
  api::Submit all_delivered = submit_message();
  all_delivered.set_num_delivered(4);
  EXPECT_FALSE(to_sequence_request(all_delivered, 10));
  api::Submit nothing_left = submit_message();
  nothing_left.set_max_tokens(1);
  EXPECT_FALSE(to_sequence_request(nothing_left, 10));
  api::Submit hot = submit_message();
  hot.mutable_sampling()->set_temperature(std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(to_sequence_request(hot, 10));
}

TEST(Messages, AnUpdateCarriesTheSample) {
  Sample sample{.token = 5, .logprob = -0.5f, .top = {{5, -0.5f}, {2, -1.5f}}};
  api::Update message;
  fill({RequestId(3), 6, 5, SequenceEnd::kStop, 16}, sample, 0xabcd, message);
  auto back = to_sample(message);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->token, 5);
  EXPECT_EQ(back->top.size(), 2u);
  EXPECT_EQ(back->top[1].logprob, -1.5f);
  EXPECT_EQ(message.end(), api::END_STOP);
  message.add_top_tokens(1);
  EXPECT_FALSE(to_sample(message));
}

TEST(Messages, ErrorsKeepTheirCode) {
  const Error back = to_error(to_message(make_error(ErrorCode::kPeerLost, "rank 2 died")));
  EXPECT_EQ(back.code(), ErrorCode::kPeerLost);
  EXPECT_EQ(back.message(), "rank 2 died");
  const Error file = invalid_input("no file \xff");
  api::FromRank fatal;
  *fatal.mutable_fatal()->mutable_error() = to_message(file);
  api::FromRank read;
  ASSERT_TRUE(read.ParseFromString(fatal.SerializeAsString()));
  EXPECT_EQ(to_error(read.fatal().error()).message(), file.message());
  api::Error unknown;
  unknown.set_code(4'000'000'000);
  EXPECT_EQ(to_error(unknown).code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace fasteep
