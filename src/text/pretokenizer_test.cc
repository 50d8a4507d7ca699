#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace fasteep {
namespace {

Json split_by(const std::string& regex, const char* behavior = "Isolated") {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", behavior},
          {"invert", false}};
}

std::vector<std::string> split(const Json& description, std::string text, bool begins = true) {
  Result<Pretokenizer> pretokenizer = Pretokenizer::from_json(&description);
  if (!pretokenizer) return {"error: " + pretokenizer.error().message()};
  Result<Pieces> pieces = pretokenizer->split(std::move(text), begins);
  if (!pieces) return {"error: " + pieces.error().message()};
  std::vector<std::string> texts;
  for (const TextRange& range : pieces->ranges) texts.emplace_back(pieces->piece(range));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Pretokenizer, SplitsEveryVectorLikeTheReference) {
  std::ifstream file(FASTEEP_SOURCE_DIR "/tests/text/pretokenizer_vectors.json");
  Json vectors = Json::parse(file);
  std::map<std::string, Json> sequences;
  for (const auto& [name, patterns] : vectors["patterns"].items()) {
    Json parts = Json::array();
    for (const Json& pattern : patterns) parts.push_back(split_by(pattern));
    sequences[name] = {{"type", "Sequence"}, {"pretokenizers", parts}};
  }
  std::string failures;
  for (const Json& entry : vectors["cases"]) {
    Texts pieces = split(sequences.at(entry["scheme"]), entry["text"]);
    if (Json(pieces) == entry["pieces"]) continue;
    failures += entry.dump() + " gave " + Json(pieces).dump() + "\n";
  }
  EXPECT_EQ(vectors["cases"].size(), 504u);
  EXPECT_EQ(failures, "");
}

TEST(Pretokenizer, WhiteSpaceIsTheUnicodeProperty) {
  EXPECT_EQ(split(split_by("\\s+"), "a\u180Eb"), Texts({"a\u180Eb"}));
  EXPECT_EQ(split(split_by("[^\\s]+"), "a\u180Eb\u0085c"), Texts({"a\u180Eb", "\u0085", "c"}));
  EXPECT_EQ(split(split_by("[\\S]+"), "ab\u3000c"), Texts({"ab", "\u3000", "c"}));
}

TEST(Pretokenizer, CaseFoldingIncludesTheLongS) {
  EXPECT_EQ(split(split_by("(?i:'s)"), "a'\u017Fb'S"), Texts({"a", "'\u017F", "b", "'S"}));
}

TEST(Pretokenizer, DollarMatchesBeforeEveryNewline) {
  EXPECT_EQ(split(split_by(" $"), "a \nb "), Texts({"a", " ", "\nb", " "}));
}

TEST(Pretokenizer, SplitBehaviorsPlaceTheMatches) {
  EXPECT_EQ(split(split_by("-", "Removed"), "a--b"), Texts({"a", "b"}));
  EXPECT_EQ(split(split_by("-", "Isolated"), "a--b"), Texts({"a", "-", "-", "b"}));
  EXPECT_EQ(split(split_by("-", "Contiguous"), "a--b"), Texts({"a", "--", "b"}));
  EXPECT_EQ(split(split_by("-", "MergedWithPrevious"), "a--b"), Texts({"a-", "-", "b"}));
  EXPECT_EQ(split(split_by("-", "MergedWithNext"), "a--b"), Texts({"a", "-", "-b"}));
}

TEST(Pretokenizer, InvertSwapsMatchesAndGaps) {
  Json description = split_by("[0-9]+", "Removed");
  description["invert"] = true;
  EXPECT_EQ(split(description, "ab12cd3"), Texts({"12", "3"}));
}

TEST(Pretokenizer, EmptyMatchesCutBetweenCharacters) {
  EXPECT_EQ(split(split_by("(?=b)"), "ab€b"), Texts({"a", "b€", "b"}));
}

TEST(Pretokenizer, LiteralPatternsAreNotRegexes) {
  Json description = split_by("");
  description["pattern"] = {{"String", "a.c"}};
  EXPECT_EQ(split(description, "abca.c"), Texts({"abc", "a.c"}));
}

TEST(Pretokenizer, DigitsIncludeEveryNumericCategory) {
  Json description = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(split(description, "a12½Ⅳ"), Texts({"a", "1", "2", "½", "Ⅳ"}));
  description["individual_digits"] = false;
  EXPECT_EQ(split(description, "a12½b"), Texts({"a", "12½", "b"}));
}

TEST(Pretokenizer, MetaspacePrefixesTheFirstPieceOfTheInputOnly) {
  Json description = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  EXPECT_EQ(split(description, "a b"), Texts({"▁a", "▁b"}));
  EXPECT_EQ(split(description, " a"), Texts({"▁a"}));
  EXPECT_EQ(split(description, "a b", false), Texts({"a", "▁b"}));
}

TEST(Pretokenizer, ByteLevelSplitsByTheGpt2RegexUnlessToldOtherwise) {
  Json description = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  EXPECT_EQ(split(description, "it's 12"), Texts({" it", "'s", " 12"}));
  description["use_regex"] = false;
  EXPECT_EQ(split(description, "it's 12"), Texts({" it's 12"}));
}

TEST(Pretokenizer, UnknownTypesAreRefusedByName) {
  EXPECT_THAT(split({{"type", "UnicodeScripts"}}, "a")[0],
              testing::HasSubstr("\"UnicodeScripts\""));
  Json after = {{"type", "Sequence"},
                {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}};
  EXPECT_THAT(split(after, "a")[0], testing::HasSubstr("Digits follows ByteLevel"));
}

class UnsupportedRegex : public testing::TestWithParam<const char*> {};

TEST_P(UnsupportedRegex, IsRefusedWithItsText) {
  Result<SplitRegex> regex = SplitRegex::compile(GetParam());
  ASSERT_FALSE(regex);
  EXPECT_THAT(regex.error().message(), testing::HasSubstr(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Constructs, UnsupportedRegex,
                         testing::Values("\\w+", "\\bword", "\\h", "[a[bc]]", "[a-z&&[^x]]",
                                         "(?m:.)", "(*UTF)a", "a{2}+", "(a)\\1", "[]a]", "(",
                                         "\\p{NoSuchThing}", "a\\"));

// Each is linear; a pattern that is quadratic on it would take minutes or meet the step limit.
class LongTexts : public testing::TestWithParam<std::string> {};

TEST_P(LongTexts, SplitInLinearTimeUnderEveryKnownPattern) {
  std::ifstream file(FASTEEP_SOURCE_DIR "/tests/text/pretokenizer_vectors.json");
  Json vectors = Json::parse(file);
  std::string text;
  while (text.size() < 300'000) text += GetParam();
  text += "a";
  for (const auto& [name, patterns] : vectors["patterns"].items()) {
    for (const Json& pattern : patterns) {
      Texts pieces = split(split_by(pattern), text);
      std::string joined;
      for (const std::string& piece : pieces) joined += piece;
      EXPECT_TRUE(joined == text) << name << " " << pattern << " " << pieces[0].substr(0, 100);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Repeated, LongTexts,
                         testing::Values(" ", "\n", " \n", "a", "A", "字", "1", "!", "\u0301",
                                         "Aa"));

}  // namespace
}  // namespace fasteep
