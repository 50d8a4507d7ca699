#include "text/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace fasteep {
namespace {

// "a[7]b": the text with every token replaced by its id in brackets.
std::string mark(const AddedTokenMatcher& matcher, std::string_view text,
                 std::vector<TextRange> closed = {}) {
  std::string out;
  for (const AddedTokenPart& part : matcher.find(text, closed)) {
    out += part.is_gap() ? std::string(text.substr(part.range.begin, part.range.size()))
                         : "[" + std::to_string(part.token) + "]";
  }
  return out;
}

AddedTokenMatcher matcher_of(std::vector<AddedToken> tokens) {
  AddedTokenMatcher matcher;
  for (const AddedToken& token : tokens) matcher.add(token, token.content);
  return matcher;
}

TEST(AddedTokens, LeftmostThenLongestMatches) {
  AddedTokenMatcher matcher = matcher_of({{1, "<a>"}, {2, "<a><b>"}, {3, "b><c"}});
  EXPECT_EQ(mark(matcher, "x<a><b><c>"), "x[2]<c>");
  EXPECT_EQ(mark(matcher, "x<a><c>"), "x[1]<c>");
}

TEST(AddedTokens, AClosedRangeAllowsTheShorterToken) {
  AddedTokenMatcher matcher = matcher_of({{1, "<a>"}, {2, "<a><b>"}});
  EXPECT_EQ(mark(matcher, "<a><b>", {{3, 6}}), "[1]<b>");
  EXPECT_EQ(mark(matcher, "<a><a>", {{0, 3}}), "<a>[1]");
  EXPECT_EQ(mark(matcher, "<a><a>", {{2, 2}}), "[1][1]");  // an empty range closes nothing
}

TEST(AddedTokens, SingleWordsStandAlone) {
  AddedTokenMatcher matcher = matcher_of({{1, "word", true}});
  EXPECT_EQ(mark(matcher, "word, words éword _word word"), "[1], words éword _word [1]");
}

TEST(AddedTokens, StripFlagsSwallowWhiteSpace) {
  AddedTokenMatcher matcher = matcher_of({{1, "<l>", false, true}, {2, "<r>", false, false, true}});
  EXPECT_EQ(mark(matcher, "a \u3000<l> b"), "a[1] b");
  EXPECT_EQ(mark(matcher, "a <r> \u3000b"), "a [2]b");
  EXPECT_EQ(mark(matcher, "<r>  <l>"), "[2][1]");
}

TEST(AddedTokens, FilesAreMergedById) {
  Json file = {{"added_tokens", {{{"id", 5}, {"content", "<x>"}, {"lstrip", true}}}}};
  Json config = {{"added_tokens_decoder",
                  {{"5", {{"content", "<x>"}, {"special", true}}}, {"6", {{"content", "<y>"}}}}}};
  Result<std::vector<AddedToken>> tokens = read_added_tokens(file, &config);
  ASSERT_TRUE(tokens) << tokens.error().message();
  ASSERT_EQ(tokens->size(), 2u);
  EXPECT_TRUE((*tokens)[0].lstrip);
  EXPECT_TRUE((*tokens)[0].special);
  EXPECT_EQ((*tokens)[1].content, "<y>");
}

TEST(AddedTokens, AKeyThatIsNoIdIsRefused) {
  Json config = {{"added_tokens_decoder", {{"five", {{"content", "<x>"}}}}}};
  Result<std::vector<AddedToken>> tokens = read_added_tokens(Json::object(), &config);
  ASSERT_FALSE(tokens);
  EXPECT_THAT(tokens.error().message(), testing::HasSubstr("\"five\""));
}

}  // namespace
}  // namespace fasteep
