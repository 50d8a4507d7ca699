#include "text/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "text/unicode.h"

namespace fasteep {
namespace {

std::string nfc(std::string_view text) { return unicode_normalize(text, UnicodeForm::kNfc); }

TEST(Normalizer, ComposesMarks) { EXPECT_EQ(nfc("cafe\u0301"), "caf\u00E9"); }

TEST(Normalizer, OrdersMarksByCombiningClass) {
  EXPECT_EQ(nfc("a\u0302\u0323"), "\u1EAD");  // the dot below comes first
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");
}

TEST(Normalizer, ComposesHangul) { EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "한"); }

TEST(Normalizer, KeepsCompositionExclusionsApart) { EXPECT_EQ(nfc("\u0958"), "\u0915\u093C"); }

TEST(Normalizer, ReplacesSingletons) { EXPECT_EQ(nfc("\u212B"), "\u00C5"); }

TEST(Normalizer, CompatibilityFormsFoldLigatures) {
  EXPECT_EQ(nfc("\uFB01"), "\uFB01");
  EXPECT_EQ(unicode_normalize("\uFB01", UnicodeForm::kNfkc), "fi");
  EXPECT_EQ(unicode_normalize("\u00C5", UnicodeForm::kNfd), "A\u030A");
}

// Marks of two classes in turn are what makes a bubble sort quadratic.
TEST(Normalizer, SortsAMillionMarks) {
  std::string text = "a";
  for (int i = 0; i < 500'000; ++i) text += "\u0301\u0327";
  std::string normal = nfc(text);
  EXPECT_EQ(normal.substr(0, 6), "\u00E1\u0327\u0327");  // no character is a with a cedilla
  EXPECT_EQ(nfc(normal), normal);
}

std::string random_text(Rng& rng) {
  constexpr char32_t kAlphabet[] = {'a', 'e',   0x301, 0x323, 0x327,  0x1100, 0x1161, 0x11A8, 0xE9,
                                    ' ', 0x915, 0x93C, 0x958, 0x4E2D, 0x212B, 0x9BE,  0x9C7};
  std::string text;
  for (uint64_t length = rng.below(12); length > 0; --length) {
    append_utf8(text, kAlphabet[rng.below(std::size(kAlphabet))]);
  }
  return text;
}

Normalizer make(const Json& description) {
  Result<Normalizer> normalizer = Normalizer::from_json(&description);
  EXPECT_TRUE(normalizer) << (normalizer ? "" : normalizer.error().message());
  return std::move(normalizer).value();
}

TEST(Normalizer, RangesDoNotChangeTheText) {
  Normalizer normalizer = make({{"type", "NFC"}});
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(seed);
    std::string before = random_text(rng), inside = random_text(rng), after = random_text(rng);
    std::string text = before + inside + after;
    std::vector<TextRange> ranges = {{before.size(), before.size() + inside.size()}}, none;
    std::string with_range = normalizer.apply(text, ranges);
    ASSERT_EQ(with_range, normalizer.apply(text, none)) << "seed " << seed;
    ASSERT_LE(ranges[0].begin, ranges[0].end) << "seed " << seed;
    ASSERT_LE(ranges[0].end, with_range.size()) << "seed " << seed;
  }
}

TEST(Normalizer, RangesFollowTheirText) {
  std::string text = "e\u0301<a>e\u0301";
  std::vector<TextRange> ranges = {{6, 9}};
  std::string normal = make({{"type", "NFC"}}).apply(text, ranges);
  EXPECT_EQ(normal, "\u00E9<a>\u00E9");
  EXPECT_EQ(ranges[0], (TextRange{5, 7}));
}

TEST(Normalizer, PrependAndReplaceMoveRanges) {
  Json description = {{"type", "Sequence"},
                      {"normalizers",
                       {{{"type", "Prepend"}, {"prepend", "▁"}},
                        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}};
  std::vector<TextRange> ranges = {{0, 1}, {2, 3}, {3, 5}};
  EXPECT_EQ(make(description).apply("a b c", ranges), "▁a▁b▁c");
  EXPECT_EQ(ranges, (std::vector<TextRange>{{3, 4}, {7, 8}, {8, 12}}));
  EXPECT_EQ(make(description).apply("", ranges), "");
}

TEST(Normalizer, UnknownTypesAreRefusedByName) {
  Json description = {{"type", "BertNormalizer"}};
  Result<Normalizer> normalizer = Normalizer::from_json(&description);
  ASSERT_FALSE(normalizer);
  EXPECT_THAT(normalizer.error().message(), testing::HasSubstr("\"BertNormalizer\""));
}

}  // namespace
}  // namespace fasteep
