#include "server/prepared_request.h"

#include <gtest/gtest.h>

#include "server/server_test_support.h"

namespace fasteep {
namespace {

using testing::ByteText;
using testing::kBos;
using testing::kEos;
using testing::kVocabSize;

ServedModel tiny(GenerationDefaults defaults = {}) {
  static const ByteText text;
  return {{"tiny"}, 200, kVocabSize, text, defaults, {kEos}};
}

Result<PreparedRequest> completion(const OrderedJson& body, GenerationDefaults defaults = {}) {
  return prepare_request(OpenAiCall::kCompletion, to_text(body), tiny(defaults));
}

Result<PreparedRequest> chat(const std::string& content, GenerationDefaults defaults = {}) {
  const OrderedJson message = {{"role", "user"}, {"content", content}};
  return prepare_request(OpenAiCall::kChat, to_text({{"messages", OrderedJson::array({message})}}),
                         tiny(defaults));
}

TEST(PreparedRequest, TextIsTokenisedWithSpecialTokensUnlessTold) {
  EXPECT_EQ(completion({{"prompt", "A"}})->prompts[0], (std::vector<TokenId>{kBos, 'A'}));
  EXPECT_EQ(completion({{"prompt", "A"}, {"add_special_tokens", false}})->prompts[0],
            std::vector<TokenId>{'A'});
}

TEST(PreparedRequest, CompletionsDefaultToSixteenTokensOrWhatIsLeft) {
  EXPECT_EQ(completion({{"prompt", "A"}})->max_tokens[0], 16);
  EXPECT_EQ(completion({{"prompt", std::string(194, 'A')}})->max_tokens[0], 5);
  EXPECT_EQ(completion({{"prompt", "A"}}, {{}, {}, {}, {}, 3})->max_tokens[0], 3);
}

TEST(PreparedRequest, ChatsDefaultToWhatIsLeft) {
  const auto request = chat("hi");
  EXPECT_EQ(request->max_tokens[0], 200 - static_cast<int>(request->prompts[0].size()));
  EXPECT_EQ(chat("hi", {{}, {}, {}, {}, 9})->max_tokens[0], 9);
}

TEST(PreparedRequest, ARequestsOwnLimitWinsOverTheCheckpoints) {
  EXPECT_EQ(completion({{"prompt", "A"}, {"max_tokens", 50}}, {{}, {}, {}, {}, 3})->max_tokens[0],
            50);
}

TEST(PreparedRequest, TooManyTokensAreRefusedWithTheNumbers) {
  const auto request = completion({{"prompt", "AAAA"}, {"max_tokens", 196}});
  EXPECT_EQ(
      request.error().message(),
      "This model's maximum context length is 200 tokens. However, you requested 201 tokens (5 in "
      "the prompt, 196 in the completion). Please reduce the length of the prompt or completion.");
  EXPECT_EQ(request.error().field(), "max_tokens");
  EXPECT_TRUE(completion({{"prompt", "AAAA"}, {"max_tokens", 195}}).has_value());
}

TEST(PreparedRequest, TooLongPromptsAreRefused) {
  EXPECT_EQ(completion({{"prompt", std::string(199, 'A')}}).error().field(), "prompt");
  EXPECT_EQ(chat(std::string(199, 'A')).error().field(), "messages");
}

TEST(PreparedRequest, EmptyPromptsAreRefused) {
  EXPECT_EQ(completion({{"prompt", ""}, {"add_special_tokens", false}}).error().field(), "prompt");
}

TEST(PreparedRequest, TheTemplatesComplaintIsPassedOn) {
  const auto request = chat("RAISE");
  EXPECT_EQ(request.error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(request.error().message(), "roles must alternate");
  EXPECT_EQ(request.error().field(), "messages");
}

TEST(PreparedRequest, BodiesThatAreNoObjectsAreRefused) {
  EXPECT_FALSE(prepare_request(OpenAiCall::kChat, "[]", tiny()).has_value());
  EXPECT_FALSE(prepare_request(OpenAiCall::kChat, "not json", tiny()).has_value());
}

}  // namespace
}  // namespace fasteep
