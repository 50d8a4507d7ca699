#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/rng.h"

namespace fasteep {
namespace {

using Ids = std::vector<TokenId>;

Tokenizer tiny(const std::string& name) {
  std::ifstream file(FASTEEP_SOURCE_DIR "/tests/text/tiny_tokenizers/" + name);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return std::move(Tokenizer::from_json(text)).value();
}

// Any tokens, bytes above all, in any order.
Ids random_ids(Rng& rng, int vocab_size) {
  Ids ids;
  for (uint64_t i = rng.below(12); i > 0; --i) {
    uint64_t bound = rng.below(2) == 0 ? 259 : static_cast<uint64_t>(vocab_size) + 3;
    ids.push_back(static_cast<TokenId>(rng.below(bound)));
  }
  return ids;
}

TEST(Detokenizer, DeltasAddUpToTheDecodeOfAnyTokens) {
  Tokenizer tokenizer = tiny("qwen_like.json");
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    Ids ids = random_ids(rng, tokenizer.vocab_size());
    bool skip_special = rng.below(2) == 0;
    Detokenizer detokenizer(tokenizer, skip_special);
    std::string text;
    for (TokenId id : ids) text += detokenizer.push(id);
    ASSERT_EQ(text + detokenizer.finish(), tokenizer.decode(ids, skip_special)) << "seed " << seed;
  }
}

TEST(Detokenizer, EveryDeltaIsValidUtf8) {
  for (const char* name : {"qwen_like.json", "mixtral_like.json"}) {
    Tokenizer tokenizer = tiny(name);
    for (uint64_t seed = 0; seed < 300; ++seed) {
      Rng rng(seed);
      Detokenizer detokenizer(tokenizer, true);
      for (TokenId id : random_ids(rng, tokenizer.vocab_size())) {
        ASSERT_TRUE(is_valid_utf8(detokenizer.push(id))) << name << " seed " << seed;
      }
      ASSERT_TRUE(is_valid_utf8(detokenizer.finish())) << name << " seed " << seed;
    }
  }
}

TEST(Detokenizer, ACopyGoesOnFromTheSamePoint) {
  Tokenizer tokenizer = tiny("qwen_like.json");
  Detokenizer first(tokenizer, true);
  for (TokenId id : {172, 253, 246}) EXPECT_EQ(first.push(id), "");
  Detokenizer second = first;
  EXPECT_EQ(first.push(222), "\U0001F600");
  EXPECT_EQ(second.finish(), "\uFFFD");
}

TEST(Detokenizer, OutlivesItsTokenizer) {
  auto tokenizer = std::make_unique<Tokenizer>(tiny("qwen_like.json"));
  Detokenizer detokenizer(*tokenizer, true);
  tokenizer.reset();
  EXPECT_EQ(detokenizer.push(39), "H");
}

TEST(Detokenizer, OnlyTheFirstSpaceOfSentencePieceTextIsDropped) {
  Tokenizer tokenizer = tiny("mixtral_like.json");
  Detokenizer detokenizer(tokenizer, true);
  TokenId the = *tokenizer.token_id("▁the");
  EXPECT_EQ(detokenizer.push(*tokenizer.token_id("<s>")), "");  // skipped: nothing is out yet
  EXPECT_EQ(detokenizer.push(the), "the");
  EXPECT_EQ(detokenizer.push(the), " the");
}

TEST(Detokenizer, ValidCharactersOfABrokenByteRunComeOut) {
  Tokenizer tokenizer = tiny("mixtral_like.json");
  auto byte = [&](const char* name) { return *tokenizer.token_id(name); };
  Detokenizer detokenizer(tokenizer, true);
  EXPECT_EQ(detokenizer.push(byte("<0xC3>")), "");
  EXPECT_EQ(detokenizer.push(byte("<0xA9>")), "\u00E9");
  EXPECT_EQ(detokenizer.push(byte("<0xFF>")), "\uFFFD");
}

TEST(Detokenizer, WithoutADecoderTokensAreJoinedWithSpaces) {
  constexpr const char* kFile =
      R"({"model": {"vocab": {"a": 0, "b": 1}, "merges": []}, "decoder": null})";
  Tokenizer tokenizer = std::move(Tokenizer::from_json(kFile)).value();
  Detokenizer detokenizer(tokenizer, true);
  EXPECT_EQ(detokenizer.push(0), "a");
  EXPECT_EQ(detokenizer.push(1), " b");
  EXPECT_EQ(tokenizer.decode(Ids{0, 1}, true), "a b");
}

TEST(Detokenizer, MetaspaceDropsTheMarkOfTheFirstToken) {
  constexpr const char* kFile = R"({"model": {"vocab": {"▁a": 0, "▁": 1, "a": 2}, "merges": []},
      "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}})";
  Tokenizer tokenizer = std::move(Tokenizer::from_json(kFile)).value();
  EXPECT_EQ(tokenizer.decode(Ids{0, 0}, true), "a a");
  Detokenizer detokenizer(tokenizer, true);
  EXPECT_EQ(detokenizer.push(0), "a");
  EXPECT_EQ(detokenizer.push(0), " a");
}

}  // namespace
}  // namespace fasteep
