#include "text/synthetic_tokenizer.h"

#include <gtest/gtest.h>

#include "text/tokenizer.h"

namespace fasteep {
namespace {

class SyntheticSizes : public testing::TestWithParam<int> {};

TEST_P(SyntheticSizes, MakeAWorkingTokenizerOfExactlyThisSize) {
  int size = GetParam();
  Result<std::string> file = make_byte_tokenizer_json(size);
  Result<std::string> config = make_byte_tokenizer_config_json(size);
  ASSERT_TRUE(file && config);
  Result<Tokenizer> tokenizer = Tokenizer::from_json(*file, *config);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ(tokenizer->vocab_size(), size);
  EXPECT_EQ(tokenizer->token_id("<|endoftext|>"), size - 3);
  EXPECT_EQ(tokenizer->token_id("<|im_start|>"), size - 2);
  EXPECT_EQ(tokenizer->token_id("<|im_end|>"), size - 1);
  for (TokenId id = 0; id < size; ++id) ASSERT_NE(tokenizer->token_bytes(id), "") << id;
  std::string text = "<|im_start|>The tale: \U0001F600 é!\n";
  Result<std::vector<TokenId>> ids = tokenizer->encode(text);
  ASSERT_TRUE(ids);
  EXPECT_EQ(tokenizer->decode(*ids, false), text);
}

INSTANTIATE_TEST_SUITE_P(Sizes, SyntheticSizes, testing::Values(259, 260, 512, 5000, 40000));

TEST(SyntheticTokenizer, MergesAreUsed) {
  Tokenizer tokenizer = std::move(Tokenizer::from_json(*make_byte_tokenizer_json(2000))).value();
  EXPECT_EQ(tokenizer.encode(" a").value().size(), 1u);
  EXPECT_LT(tokenizer.encode(" the tree").value().size(), 6u);
}

TEST(SyntheticTokenizer, SizesThatCannotBeMadeAreRefused) {
  EXPECT_FALSE(make_byte_tokenizer_json(258));
  EXPECT_FALSE(make_byte_tokenizer_json(1'000'001));
  EXPECT_FALSE(make_byte_tokenizer_config_json(0));
}

}  // namespace
}  // namespace fasteep
