#include "text/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/rng.h"

namespace fasteep {
namespace {

using Ids = std::vector<TokenId>;
using Words = std::vector<std::string>;

// A model whose vocabulary is `tokens`, numbered in order.
Json model_of(const Words& tokens, const Json& merges) {
  Json vocab = Json::object();
  for (size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = i;
  return {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}};
}

Words encode(const Json& model, std::string_view piece) {
  Result<Bpe> bpe = Bpe::from_json(model, false);
  if (!bpe) return {"error: " + bpe.error().message()};
  Ids ids;
  bpe->encode(piece, ids);
  Words words;
  for (TokenId id : ids) {
    for (const auto& [word, word_id] : bpe->vocabulary()) {
      if (word_id == id) words.push_back(word);
    }
  }
  return words;
}

TEST(Bpe, MergesTheLowestRankFirstAndTheLeftmostOnTies) {
  Json model = model_of({"a", "b", "c", "ab", "bc"}, {"b c", "a b"});
  EXPECT_EQ(encode(model, "abc"), Words({"a", "bc"}));
  EXPECT_EQ(encode(model_of({"a", "aa"}, {"a a"}), "aaa"), Words({"aa", "a"}));
}

TEST(Bpe, MergesMayBePairsAndMayStartWithAVersionLine) {
  EXPECT_EQ(encode(model_of({"a", " ", "a "}, Json::array({Json::array({"a", " "})})), "a "),
            Words({"a "}));
  EXPECT_EQ(encode(model_of({"a", "b", "ab"}, {"#version: 0.2", "a b"}), "ab"), Words({"ab"}));
}

TEST(Bpe, IgnoreMergesTakesAWholePieceFromTheVocabulary) {
  Json model = model_of({"a", "b", "ab"}, Json::array());
  EXPECT_EQ(encode(model, "ab"), Words({"a", "b"}));
  model["ignore_merges"] = true;
  EXPECT_EQ(encode(model, "ab"), Words({"ab"}));
}

TEST(Bpe, UnknownCharactersBecomeBytesOrTheUnknownTokenOrNothing) {
  Json model = model_of({"a", "<unk>", "<0xC3>", "<0xA9>"}, Json::array());
  EXPECT_EQ(encode(model, "aéa"), Words({"a", "a"}));
  model["unk_token"] = "<unk>";
  EXPECT_EQ(encode(model, "éé"), Words({"<unk>", "<unk>"}));
  model["fuse_unk"] = true;
  EXPECT_EQ(encode(model, "ééaé"), Words({"<unk>", "a", "<unk>"}));
  model["byte_fallback"] = true;
  EXPECT_EQ(encode(model, "aéü"), Words({"a", "<0xC3>", "<0xA9>", "<unk>"}));
}

// Tokens over {a, b} with random merges.
struct RandomModel {
  std::map<std::string, TokenId> vocab;
  std::vector<std::pair<std::string, std::string>> merges;
  Json json = Json::object();
};

RandomModel random_model(Rng& rng) {
  RandomModel model;
  Words words = {"a", "b", "▁"};
  Json merges = Json::array();
  for (int i = 0; i < 40; ++i) {
    std::string left = words[rng.below(words.size())], right = words[rng.below(words.size())];
    bool is_new = std::find(words.begin(), words.end(), left + right) == words.end();
    if (!is_new || left.size() + right.size() > 12) continue;
    words.push_back(left + right);
    model.merges.emplace_back(left, right);
    merges.push_back({left, right});
  }
  for (size_t i = 0; i < words.size(); ++i) model.vocab[words[i]] = static_cast<TokenId>(i);
  model.json = model_of(words, merges);
  return model;
}

// The definition, step by step: scan all pairs for each merge.
Ids encode_slowly(const RandomModel& model, const Words& characters) {
  Words symbols = characters;
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [left, right] : model.merges) {
      for (size_t i = 0; i + 1 < symbols.size() && !changed; ++i) {
        if (symbols[i] != left || symbols[i + 1] != right) continue;
        symbols[i] += symbols[i + 1];
        symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(i) + 1);
        changed = true;
      }
      if (changed) break;
    }
  }
  Ids ids;
  for (const std::string& symbol : symbols) ids.push_back(model.vocab.at(symbol));
  return ids;
}

class RandomPieces : public testing::TestWithParam<int> {};

// Short pieces are scanned, long ones use the heap, and some models are cut at the marker.
TEST_P(RandomPieces, EncodeAsTheDefinitionSays) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed, static_cast<uint64_t>(GetParam()));
    RandomModel model = random_model(rng);
    Result<Bpe> bpe = Bpe::from_json(model.json, false);
    ASSERT_TRUE(bpe) << bpe.error().message();
    Words characters;
    std::string piece;
    for (int i = 0; i < GetParam(); ++i) {
      characters.push_back(Words{"a", "b", "▁"}[rng.below(3)]);
      piece += characters.back();
    }
    Ids ids;
    bpe->encode(piece, ids);
    ASSERT_EQ(ids, encode_slowly(model, characters)) << "seed " << seed << " piece " << piece;
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, RandomPieces, testing::Values(0, 1, 2, 9, 31, 32, 33, 34, 120));

TEST(Bpe, AMillionSymbolsInOnePieceUseTheHeap) {
  Json model = model_of({"a", "aa", "aaaa"}, {"a a", "aa aa"});
  Result<Bpe> bpe = Bpe::from_json(model, false);
  ASSERT_TRUE(bpe);
  Ids ids;
  bpe->encode(std::string(1 << 20, 'a'), ids);
  EXPECT_EQ(ids, Ids(1 << 18, 2));
}

struct BadModel {
  const char* name;
  const char* json;
  const char* says;
};

class BadModels : public testing::TestWithParam<BadModel> {};

TEST_P(BadModels, AreRefusedWithTheReason) {
  Result<Bpe> bpe = Bpe::from_json(Json::parse(GetParam().json), false);
  ASSERT_FALSE(bpe);
  EXPECT_EQ(bpe.error().code(), ErrorCode::kInvalidInput);
  EXPECT_THAT(bpe.error().message(), testing::HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Models, BadModels,
    testing::Values(
        BadModel{"type", R"({"type": "Unigram", "vocab": []})", "\"Unigram\""},
        BadModel{"merges", R"({"type": "BPE", "vocab": {"a": 0}})", "\"merges\" is missing"},
        BadModel{"vocab", R"({"merges": []})", "\"vocab\" is missing"},
        BadModel{"part", R"({"vocab": {"a": 0}, "merges": ["a b"]})", "not in \"vocab\""},
        BadModel{"spaces", R"({"vocab": {"a": 0}, "merges": ["a  a"]})", "one space"},
        BadModel{"shape", R"({"vocab": {"a": 0}, "merges": [["a"]]})", "pair of strings"},
        BadModel{"id", R"({"vocab": {"a": -1}, "merges": []})", "the id of a"},
        BadModel{"dropout", R"({"vocab": {}, "merges": [], "dropout": 0.1})", "\"dropout\""},
        BadModel{"unknown", R"({"vocab": {}, "merges": [], "unk_token": "?"})", "\"unk_token\""},
        BadModel{"prefix", R"({"vocab": {}, "merges": [], "continuing_subword_prefix": "##"})",
                 "\"continuing_subword_prefix\""}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fasteep
