#include "server/completion_stream.h"

#include <gtest/gtest.h>

#include "server/server_test_support.h"

namespace fasteep {
namespace {

using testing::ByteText;
using testing::kEos;
using testing::kVocabSize;
using testing::ScriptedEngine;

class CompletionStreamTest : public ::testing::Test {
 protected:
  CompletionStream stream() { return CompletionStream(fields, model); }
  static StreamEvent event(const std::string& bytes) {
    StreamEvent event;
    for (const unsigned char byte : bytes) event.tokens.push_back(ScriptedEngine::token(byte));
    return event;
  }
  static StreamEvent stopped(TokenId token) {
    StreamEvent event;
    event.tokens = {ScriptedEngine::token(token)};
    event.finish = FinishReason::kStop;
    event.stop_token = token;
    return event;
  }

  ByteText text;
  ServedModel model{{"tiny"}, 200, kVocabSize, text, {}, {kEos}};
  GenerationFields fields;
};

TEST_F(CompletionStreamTest, TokensBecomeText) {
  auto choice = stream();
  EXPECT_EQ(choice.push(event("He")).text, "He");
  const ChoiceOutput last = choice.push(stopped(kEos));
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.finish, FinishReason::kStop);
  EXPECT_EQ(last.stop_reason.index(), 0u) << "the model's own end has no reason";
  EXPECT_EQ(last.tokens.size(), 1u) << "the stop token counts";
  EXPECT_EQ(choice.num_tokens(), 3);
}

TEST_F(CompletionStreamTest, ACharacterIsShownWhole) {
  auto choice = stream();
  EXPECT_EQ(choice.push(event("\xc3")).text, "");
  EXPECT_EQ(choice.push(event("\xa9")).text, "\xc3\xa9");
}

TEST_F(CompletionStreamTest, AnUnfinishedCharacterIsReplacedAtTheEnd) {
  auto choice = stream();
  StreamEvent last = event("\xc3");
  last.finish = FinishReason::kLength;
  EXPECT_EQ(choice.push(last).text, "\xef\xbf\xbd");
}

TEST_F(CompletionStreamTest, AStopStringAcrossEventsEndsTheChoice) {
  fields.stop = {"END"};
  auto choice = stream();
  EXPECT_EQ(choice.push(event("aE")).text, "a");
  EXPECT_EQ(choice.push(event("N")).text, "");
  const ChoiceOutput last = choice.push(event("Dxyz"));
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.finish, FinishReason::kStop);
  EXPECT_EQ(std::get<std::string>(last.stop_reason), "END");
  EXPECT_EQ(last.tokens.size(), 1u) << "tokens after the stop string are not the choice's";
  EXPECT_TRUE(choice.is_finished());
}

TEST_F(CompletionStreamTest, HeldBackTextIsShownWhenItWasNoStopString) {
  fields.stop = {"END"};
  auto choice = stream();
  StreamEvent last = event("aEN");
  last.finish = FinishReason::kLength;
  EXPECT_EQ(choice.push(last).text, "aEN");
}

TEST_F(CompletionStreamTest, TheStopStringIsShownIfAskedFor) {
  fields.stop = {"END"};
  fields.include_stop_text = true;
  auto choice = stream();
  EXPECT_EQ(choice.push(event("aEND")).text, "aEND");
}

TEST_F(CompletionStreamTest, AClientsStopTokenIsTheReason) {
  auto choice = stream();
  const ChoiceOutput last = choice.push(stopped('x'));
  EXPECT_EQ(last.text, "") << "a stop token is not shown";
  EXPECT_EQ(std::get<TokenId>(last.stop_reason), 'x');
}

TEST_F(CompletionStreamTest, SpecialTokensAreShownIfAskedFor) {
  fields.skip_special_tokens = false;
  fields.include_stop_text = true;
  auto choice = stream();
  EXPECT_EQ(choice.push(stopped(kEos)).text, "<eos>");
}

}  // namespace
}  // namespace fasteep
