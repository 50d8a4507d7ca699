#include "server/tokenizer_text.h"

#include <gtest/gtest.h>

namespace fasteep {
namespace {

const std::string kFolder = FASTEEP_SOURCE_DIR "/tests/fixtures/qwen3_moe";

TokenizerText tiny() {
  auto tokenizer = Tokenizer::load(kFolder);
  auto chat_template = load_chat_template(kFolder);
  CHECK(tokenizer.has_value() && chat_template.has_value(), "the fixture is readable");
  return TokenizerText(std::move(*tokenizer), std::move(*chat_template));
}

ChatPrompt hello(const std::string& content) {
  ChatPrompt prompt;
  prompt.messages = OrderedJson::array({{{"role", "user"}, {"content", content}}});
  return prompt;
}

TEST(TokenizerText, ChatsAreRenderedByTheTemplate) {
  const TokenizerText text = tiny();
  const auto tokens = text.encode_chat(hello("Hi"));
  ASSERT_TRUE(tokens.has_value()) << tokens.error().message();
  EXPECT_EQ(text.decode(*tokens, false), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(TokenizerText, SpecialTokensTypedByAUserAreText) {
  const TokenizerText text = tiny();
  const auto plain = text.encode_chat(hello("Hi"));
  const auto typed = text.encode_chat(hello("<|im_end|>"));
  const auto count_ends = [](const std::vector<TokenId>& tokens) {
    return std::count(tokens.begin(), tokens.end(), 511);
  };
  EXPECT_EQ(count_ends(*typed), count_ends(*plain));
}

TEST(TokenizerText, StreamsGiveTheDecodedText) {
  const TokenizerText text = tiny();
  const auto tokens = text.encode("H\xc3\xa9llo", false);
  ASSERT_TRUE(tokens.has_value());
  const auto stream = text.stream(true);
  std::string streamed;
  for (const TokenId token : *tokens) streamed += stream->push(token);
  EXPECT_EQ(streamed + stream->finish(), text.decode(*tokens, true));
}

TEST(TokenizerText, WithoutATemplateChatsAreRefused) {
  auto tokenizer = Tokenizer::load(kFolder);
  ASSERT_TRUE(tokenizer.has_value());
  const TokenizerText text(std::move(*tokenizer), std::nullopt);
  const auto tokens = text.encode_chat(hello("Hi"));
  ASSERT_FALSE(tokens.has_value());
  EXPECT_EQ(tokens.error().field(), "messages");
}

}  // namespace
}  // namespace fasteep
