#include "text/unicode.h"

#include <gtest/gtest.h>

#include "text/byte_alphabet.h"

namespace fasteep {
namespace {

std::string lossy(std::string_view bytes) {
  std::string text;
  append_lossy_text(text, bytes, Replacement::kPerSubpart);
  return text;
}

TEST(Unicode, EachMaximalSubpartBecomesOneReplacement) {
  EXPECT_EQ(lossy("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(lossy("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(lossy("\xC3("), "\uFFFD(");
  EXPECT_EQ(lossy("\xC0\xAF"), "\uFFFD\uFFFD");
  EXPECT_EQ(lossy("a\xE2\x82z"), "a\uFFFDz");
}

TEST(Unicode, PerByteReplacementCountsBytes) {
  std::string text;
  append_lossy_text(text, "\xE4\xB8\x61", Replacement::kPerByte);
  EXPECT_EQ(text, "\uFFFD\uFFFDa");
}

TEST(Unicode, AnIncompleteCharacterIsLeftForLater) {
  std::string text;
  EXPECT_EQ(append_complete_text(text, "a\xF0\x9F\x98", Replacement::kPerSubpart), 1u);
  EXPECT_EQ(text, "a");
  EXPECT_EQ(append_complete_text(text, "\xED\xA0", Replacement::kPerSubpart), 2u);  // a surrogate
}

TEST(Unicode, ValidityFollowsTheStandard) {
  EXPECT_TRUE(is_valid_utf8(std::string_view("a\0\u00E9\u4E2D\U0001F600", 11)));
  EXPECT_FALSE(is_valid_utf8("\xE0\x9F\xBF"));
  EXPECT_FALSE(is_valid_utf8("\xF0\x8F\xBF\xBF"));
  EXPECT_FALSE(is_valid_utf8("\xFF"));
}

TEST(Unicode, CodePointsSurviveTheRoundTrip) {
  for (char32_t c : {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(text, c);
    size_t position = 0;
    EXPECT_EQ(next_code_point(text, position), c);
    EXPECT_EQ(position, text.size());
  }
}

TEST(Unicode, WhiteSpaceHasNoControlsAndNoJoiners) {
  for (char32_t c : {0x09u, 0x0Du, 0x85u, 0xA0u, 0x1680u, 0x200Au, 0x2029u, 0x3000u}) {
    EXPECT_TRUE(is_white_space(c)) << static_cast<uint32_t>(c);
  }
  for (char32_t c : {0x1Cu, 0x180Eu, 0x200Bu, 0xFEFFu}) {
    EXPECT_FALSE(is_white_space(c)) << static_cast<uint32_t>(c);
  }
}

TEST(ByteAlphabet, WritesBlanksAndControlsPrintably) {
  EXPECT_EQ(to_byte_alphabet(" \n\tA\x7F\xC2\xAD"), "ĠĊĉAġÂŃ");
}

TEST(ByteAlphabet, EveryByteSurvivesTheRoundTrip) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(from_byte_alphabet(to_byte_alphabet(bytes)), bytes);
}

TEST(ByteAlphabet, OtherCharactersStandForThemselves) {
  EXPECT_EQ(from_byte_alphabet("<｜User｜>"), "<｜User｜>");
}

}  // namespace
}  // namespace fasteep
