#include "server/json_limits.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace fasteep {
namespace {

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonLimits, DepthIsBounded) {
  EXPECT_TRUE(parse_json(nested(64)).has_value());
  EXPECT_EQ(parse_json(nested(65)).error().message(),
            "the body is not valid JSON: nested more than 64 levels deep");
  EXPECT_FALSE(parse_json(nested(200'000)).has_value());
  EXPECT_FALSE(parse_json(std::string(200'000, '[')).has_value());
}

TEST(JsonLimits, NumberOfValuesIsBounded) {
  EXPECT_TRUE(parse_json("[1,2,3]", {64, 4}).has_value());
  EXPECT_FALSE(parse_json("[1,2,3,4]", {64, 4}).has_value());
}

TEST(JsonLimits, LastOfEqualKeysWins) {
  EXPECT_EQ(parse_json(R"({"a": 1, "b": 2, "a": 3})")->dump(), R"({"a":3,"b":2})");
}

TEST(JsonLimits, LastOfEqualKeysWinsInLargeObjects) {
  std::string text = "{";
  for (int i = 0; i < 100; ++i) text += fmt::format("\"key{}\": {}, ", i, i);
  const auto json = parse_json(text + R"("key7": "seven", "key99": "last"})");
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ(json->size(), 100u);
  EXPECT_EQ((*json)["key7"], "seven");
  EXPECT_EQ((*json)["key99"], "last");
  EXPECT_EQ((*json)["key50"], 50);
}

// 300,000 keys would take minutes if each were compared with all others.
TEST(JsonLimits, ManyKeysAreNotQuadratic) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += fmt::format("\"{}\":0,", i);
  EXPECT_EQ(parse_json(text + "\"end\":0}")->size(), 300'001u);
}

class BadJson : public testing::TestWithParam<std::string> {};

TEST_P(BadJson, IsInvalidInput) {
  const auto json = parse_json(GetParam());
  ASSERT_FALSE(json.has_value());
  EXPECT_EQ(json.error().code(), ErrorCode::kInvalidInput);
  EXPECT_TRUE(json.error().message().starts_with("the body is not valid JSON: "));
  EXPECT_LT(json.error().message().size(), 400u);
}

INSTANTIATE_TEST_SUITE_P(All, BadJson,
                         testing::Values("", "{", "{} {}", "{\"a\": NaN}", "{\"a\": Infinity}",
                                         "{\"a\": 1e999}", "\"\xff\xfe\"", "\"\xc3\"",
                                         "\"\xed\xa0\x80\"", "\"\\ud800\"", "{\"a\": 'x'}",
                                         "{\"a\": 01}", "[1,]", std::string("\0", 1), "nul",
                                         "\"" + std::string(9000, 'x')));

RC_GTEST_PROP(JsonLimits, WhatIsWrittenIsReadBack, (const std::vector<int>& numbers)) {
  const OrderedJson json = {{"numbers", numbers}, {"text", "\xc3\xa9\n"}};
  RC_ASSERT(*parse_json(to_text(json)) == json);
}

TEST(JsonLimits, BytesThatAreNotTextAreReplaced) {
  EXPECT_EQ(to_text(OrderedJson("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace fasteep
