#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "text/detokenizer.h"

namespace fasteep {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<TokenId>;
const std::filesystem::path kSource = FASTEEP_SOURCE_DIR;
const std::filesystem::path kTiny = kSource / "tests/text/tiny_tokenizers";

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Tokenizer tiny(const std::string& name, const Json& config = nullptr) {
  Result<Tokenizer> tokenizer =
      Tokenizer::from_json(read(kTiny / name), config.is_null() ? "" : config.dump());
  EXPECT_TRUE(tokenizer) << name << ": " << (tokenizer ? "" : tokenizer.error().message());
  return std::move(tokenizer).value();
}

Json stream(const Tokenizer& tokenizer, const Json& entry) {
  Detokenizer detokenizer(tokenizer, entry["skip_special_tokens"]);
  Json deltas = Json::array();
  for (TokenId id : entry["ids"].get<Ids>()) deltas.push_back(detokenizer.push(id));
  return {{"deltas", deltas}, {"flush", detokenizer.finish()}};
}

// What the tokenizer does for one line of vectors.jsonl, with the field names of the line.
Json answer(const Tokenizer& tokenizer, const Json& entry) {
  if (entry["op"] == "stream") return stream(tokenizer, entry);
  if (entry["op"] == "decode") {
    Ids ids = entry["ids"];
    return {{"text", tokenizer.decode(ids, false)},
            {"text_skip_special", tokenizer.decode(ids, true)}};
  }
  Result<Ids> ids = tokenizer.encode(entry["text"].get<std::string>(),
                                     {.add_special_tokens = entry["add_special_tokens"]});
  if (!ids) return {{"error", ids.error().message()}};
  return {{"ids", *ids}};
}

TEST(Tokenizer, AnswersEveryVectorLikeTheReference) {
  std::map<std::string, Tokenizer> tokenizers;
  std::ifstream file(kTiny / "vectors.jsonl");
  std::string failures;
  int num_cases = 0;
  for (std::string line; std::getline(file, line); ++num_cases) {
    Json entry = Json::parse(line);
    std::string name = entry["tokenizer"];
    const Tokenizer& tokenizer = tokenizers.try_emplace(name, tiny(name)).first->second;
    Json actual = answer(tokenizer, entry);
    for (const auto& [field, value] : actual.items()) {
      if (entry[field] != value) failures += line + " gave " + actual.dump() + "\n";
    }
  }
  EXPECT_EQ(num_cases, 431);
  EXPECT_EQ(failures, "");
}

class EveryTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(EveryTokenizer, StreamsWhatItDecodes) {
  std::ifstream file(kTiny / "vectors.jsonl");
  Tokenizer tokenizer = tiny(GetParam());
  for (std::string line; std::getline(file, line);) {
    Json entry = Json::parse(line);
    if (entry["tokenizer"] != GetParam() || entry["op"] == "encode") continue;
    // A run of byte tokens with a valid character and a broken one: see Detokenizer.
    if (entry["ids"] == Json({231, 187, 176, 258})) continue;
    Detokenizer detokenizer(tokenizer, true);
    std::string text;
    for (TokenId id : entry["ids"].get<Ids>()) text += detokenizer.push(id);
    EXPECT_EQ(text + detokenizer.finish(), tokenizer.decode(entry["ids"].get<Ids>(), true)) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, EveryTokenizer,
                         testing::Values("added_token_flags.json", "deepseek_like.json",
                                         "ignore_merges.json", "metaspace_first.json",
                                         "mixtral_like.json", "qwen_like.json"));

TEST(Tokenizer, LoadsAModelFolder) {
  Result<Tokenizer> tokenizer = Tokenizer::load(kSource / "tests/fixtures/qwen3_moe");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ(tokenizer->vocab_size(), 512);
  EXPECT_EQ(tokenizer->token_id("<|im_end|>"), 511);
  EXPECT_TRUE(tokenizer->is_special(511));
  EXPECT_FALSE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(512));
  std::string text = "<|im_start|>user\nThe café, 北京 — \U0001F600!<|im_end|>\n";
  Result<Ids> ids = tokenizer->encode(text);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->front(), 510);
  EXPECT_EQ(tokenizer->decode(*ids, false), text);
}

TEST(Tokenizer, TokenBytesMayBeAPartOfACharacter) {
  Tokenizer qwen = tiny("qwen_like.json"), mixtral = tiny("mixtral_like.json");
  EXPECT_EQ(qwen.token_bytes(172), "\xF0");
  EXPECT_EQ(qwen.token_bytes(378), "<|im_end|>");
  EXPECT_EQ(qwen.token_bytes(99999), "");
  EXPECT_EQ(qwen.token_bytes(-1), "");
  EXPECT_EQ(mixtral.token_bytes(*mixtral.token_id("<0xE4>")), "\xE4");
  EXPECT_EQ(mixtral.token_bytes(*mixtral.token_id("▁the")), " the");
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  Result<Ids> ids = tiny("qwen_like.json").encode("a\xFF");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code(), ErrorCode::kInvalidInput);
}

TEST(Tokenizer, NulIsAnOrdinaryCharacter) {
  Tokenizer tokenizer = tiny("qwen_like.json");
  std::string text("a\0b", 3);
  Result<Ids> ids = tokenizer.encode(text);
  ASSERT_TRUE(ids);
  EXPECT_EQ(tokenizer.decode(*ids, false), text);
}

TEST(Tokenizer, AddedTokensInInputRunsStayText) {
  Tokenizer tokenizer = tiny("qwen_like.json");
  std::string text = "<|im_start|>a<|im_end|>b<|im_end|>";
  std::vector<TextRange> runs = {{12, 24}};  // a<|im_end|>b
  Result<Ids> ids = tokenizer.encode(text, {.input_runs = runs});
  ASSERT_TRUE(ids);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 378), 1);
  EXPECT_EQ(ids->front(), 377);
  EXPECT_EQ(ids->back(), 378);
  EXPECT_EQ(tokenizer.decode(*ids, false), text);
}

TEST(Tokenizer, AnAddedTokenThatTouchesAnInputRunStaysText) {
  Tokenizer tokenizer = tiny("qwen_like.json");
  std::vector<TextRange> runs = {{5, 10}};  // the user wrote "end|>" behind the template's "<|im_"
  Result<Ids> ids = tokenizer.encode("<|im_end|>", {.input_runs = runs});
  ASSERT_TRUE(ids);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 378), 0);
}

TEST(Tokenizer, InputRunsCoverNormalizedTokensToo) {
  Tokenizer tokenizer = tiny("added_token_flags.json");
  std::string text = "Zu\u0308rich e\u0301 Zu\u0308rich";  // 8 + 5 + 8 bytes
  std::vector<TextRange> runs = {{0, 8}};
  Result<Ids> with_run = tokenizer.encode(text, {.input_runs = runs});
  Result<Ids> without = tokenizer.encode(text);
  ASSERT_TRUE(with_run && without);
  EXPECT_EQ(std::count(without->begin(), without->end(), 320), 2);
  EXPECT_EQ(std::count(with_run->begin(), with_run->end(), 320), 1);
  EXPECT_EQ(with_run->back(), 320);
}

TEST(Tokenizer, ConfigSwitchesBeginAndEndTokens) {
  const char* kBos = "<｜begin▁of▁sentence｜>";
  const char* kEos = "<｜end▁of▁sentence｜>";
  auto encode = [](const Json& config) {
    return *tiny("deepseek_like.json", config).encode("", {.add_special_tokens = true});
  };
  EXPECT_EQ(encode(nullptr), Ids({0}));
  EXPECT_EQ(encode({{"add_bos_token", false}, {"bos_token", kBos}}), Ids());
  EXPECT_EQ(encode({{"add_bos_token", true}, {"bos_token", {{"content", kBos}}}}), Ids({0}));
  EXPECT_EQ(encode({{"add_eos_token", true}, {"eos_token", kEos}}), Ids({0, 1}));
}

TEST(Tokenizer, ConfigAddsTokensById) {
  Json token = {{"content", "<extra>"}, {"special", true}};
  Tokenizer tokenizer = tiny("qwen_like.json", {{"added_tokens_decoder", {{"382", token}}}});
  EXPECT_EQ(tokenizer.token_id("<extra>"), 382);
  EXPECT_TRUE(tokenizer.is_special(382));
  EXPECT_EQ(tokenizer.encode("<extra>").value(), Ids({382}));
  EXPECT_EQ(tokenizer.vocab_size(), 383);
}

TEST(Tokenizer, MayBeUsedByManyThreads) {
  Tokenizer tokenizer = tiny("qwen_like.json");
  Ids expected = *tokenizer.encode("the engine reads tokens");
  std::vector<Ids> results(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& result : results) {
      threads.emplace_back([&] { result = *tokenizer.encode("the engine reads tokens"); });
    }
  }
  EXPECT_EQ(results, std::vector<Ids>(4, expected));
}

class LongInputs : public testing::TestWithParam<std::string> {};

// A quadratic step anywhere would take hours.
TEST_P(LongInputs, EncodeAndDecodeInEveryTokenizer) {
  std::string text = "b";
  while (text.size() < 1'000'000) text += GetParam();
  text += "b";
  for (const char* name : {"qwen_like.json", "mixtral_like.json", "metaspace_first.json",
                           "deepseek_like.json", "ignore_merges.json"}) {
    Tokenizer tokenizer = tiny(name);
    Result<Ids> ids = tokenizer.encode(text);
    ASSERT_TRUE(ids) << ids.error().message();
    EXPECT_TRUE(tokenizer.decode(*ids, false) == text) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Repeated, LongInputs, testing::Values(" ", "a", "字", "<", "\n"));

struct BadFile {
  const char* name;
  const char* patch;   // merged into a small good file
  const char* config;  // tokenizer_config.json
  const char* says;
};

class BadFiles : public testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, AreRefusedWithTheReason) {
  Json file = Json::parse(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
          "added_tokens": [{"id": 3, "content": "<x>", "special": true}],
          "decoder": {"type": "Fuse"}})");
  ASSERT_TRUE(Tokenizer::from_json(file.dump()));
  file.merge_patch(Json::parse(GetParam().patch));
  Result<Tokenizer> tokenizer = Tokenizer::from_json(file.dump(), GetParam().config);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code(), ErrorCode::kInvalidInput);
  EXPECT_THAT(tokenizer.error().message(), testing::HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadFiles,
    testing::Values(
        BadFile{"no_model", R"({"model": null})", "", "no \"model\""},
        BadFile{"no_merges", R"({"model": {"merges": null}})", "", "\"merges\" is missing"},
        BadFile{"type", R"({"model": {"type": "WordPiece"}})", "", "\"WordPiece\""},
        BadFile{"decoder", R"({"decoder": {"type": "CTC"}})", "", "decoder: type \"CTC\""},
        BadFile{"order", R"({"decoder": {"type": "Sequence", "decoders":
                [{"type": "Fuse"}, {"type": "ByteFallback"}]}})",
                "", "ByteFallback after"},
        BadFile{"post", R"({"post_processor": {"type": "BertProcessing"}})", "", "BertProcessing"},
        BadFile{"same_id", R"({"model": {"vocab": {"c": 2}}})", "", "shares its id 2"},
        BadFile{"added_id", R"({"added_tokens": [{"id": 5, "content": "<x>"}]})", "",
                "the numbering gives it 3"},
        BadFile{"in_vocab", R"({"added_tokens": [{"id": 3, "content": "ab"}]})", "",
                "the vocabulary gives it 2"},
        BadFile{"huge_id", R"({"model": {"vocab": {"c": 2000000000}}})", "", "far above"},
        BadFile{"empty", R"({"added_tokens": [{"id": 3, "content": ""}]})", "", "0 bytes"},
        BadFile{"contents", "{}", R"({"added_tokens_decoder": {"3": {"content": "<y>"}}})",
                "\"<x>\" in one place and \"<y>\""},
        BadFile{"bos", "{}", R"({"add_bos_token": true, "bos_token": null})", "bos_token"},
        BadFile{"flag", "{}", R"({"add_bos_token": 1})", "\"add_bos_token\" must be true or false"},
        BadFile{"template", R"({"post_processor": {"type": "TemplateProcessing", "single":
                [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                "special_tokens": {"<s>": {"ids": [77]}}}})",
                "", "77"}),
    [](const auto& info) { return info.param.name; });

TEST(Tokenizer, DeepNestingIsRefused) {
  std::string deep = "{\"model\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  Result<Tokenizer> tokenizer = Tokenizer::from_json(deep);
  ASSERT_FALSE(tokenizer);
  EXPECT_THAT(tokenizer.error().message(), testing::HasSubstr("nests deeper"));
}

TEST(Tokenizer, BrokenJsonIsRefusedWithItsPlace) {
  Result<Tokenizer> tokenizer = Tokenizer::from_json("{\"model\": ");
  ASSERT_FALSE(tokenizer);
  EXPECT_THAT(tokenizer.error().message(), testing::HasSubstr("tokenizer.json is not valid JSON"));
}

TEST(Tokenizer, AFolderWithoutAFileIsNotFound) {
  Result<Tokenizer> tokenizer = Tokenizer::load(kSource / "tests/no_such_folder");
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(tokenizer.error().message(), testing::HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace fasteep
