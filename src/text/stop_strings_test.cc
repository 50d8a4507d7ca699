#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace fasteep {
namespace {

StopStrings make(std::vector<std::string> stops, bool include = false) {
  return std::move(StopStrings::create(std::move(stops), {include})).value();
}

TEST(StopStrings, MatchAcrossDeltas) {
  StopStrings stops = make({"</end>"});
  EXPECT_EQ(stops.push("text</").text, "text");
  EXPECT_EQ(stops.push("en").text, "");
  StopDelivery last = stops.push("d>more");
  EXPECT_EQ(last.text, "");
  EXPECT_TRUE(last.stopped);
  EXPECT_EQ(last.which, 0);
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, HeldTextComesOutWhenItIsNoStop) {
  StopStrings stops = make({"\n\nUser"});
  EXPECT_EQ(stops.push("a\n\n").text, "a");
  EXPECT_EQ(stops.push("\n").text, "\n");
  EXPECT_EQ(stops.push("x").text, "\n\nx");
  EXPECT_EQ(stops.push("\n").text, "");
  EXPECT_EQ(stops.finish(), "\n");
}

TEST(StopStrings, MayBeDelivered) {
  StopDelivery delivery = make({"ab"}, true).push("xaby");
  EXPECT_EQ(delivery.text, "xab");
  EXPECT_TRUE(delivery.stopped);
}

TEST(StopStrings, TheFirstToBeCompleteWinsAndOfThoseTheLongest) {
  EXPECT_EQ(make({"abc", "b"}).push("abc").text, "a");
  StopDelivery both = make({"b", "ab"}).push("xab");
  EXPECT_EQ(both.text, "x");
  EXPECT_EQ(both.which, 1);
}

TEST(StopStrings, NothingFollowsAStop) {
  StopStrings stops = make({"a"});
  EXPECT_TRUE(stops.push("a").stopped);
  StopDelivery after = stops.push("zzz");
  EXPECT_TRUE(after.stopped);
  EXPECT_EQ(after.text, "");
}

TEST(StopStrings, NoStopsHoldNothing) {
  StopStrings stops = make({});
  EXPECT_EQ(stops.push("anything").text, "anything");
}

TEST(StopStrings, AnEmptyStopIsRefused) { EXPECT_FALSE(StopStrings::create({"a", ""})); }

std::string run(StopStrings stops, std::string_view text, Rng& rng) {
  std::string delivered;
  for (size_t at = 0; at < text.size();) {
    size_t size = 1 + rng.below(4);
    StopDelivery delivery = stops.push(text.substr(at, size));
    delivered += delivery.text;
    if (delivery.stopped) return delivered + "|" + std::to_string(delivery.which);
    at += size;
  }
  return delivered + stops.finish();
}

TEST(StopStrings, DeltasDoNotChangeTheResult) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(seed);
    auto word = [&](uint64_t longest) {
      std::string text;
      for (uint64_t i = 1 + rng.below(longest); i > 0; --i)
        text += static_cast<char>('a' + rng.below(2));
      return text;
    };
    StopStrings stops = make({word(7), word(5)});
    std::string text = word(30);
    StopStrings at_once = stops;
    StopDelivery whole = at_once.push(text);
    std::string expected =
        whole.text + (whole.stopped ? "|" + std::to_string(whole.which) : at_once.finish());
    ASSERT_EQ(run(stops, text, rng), expected) << "seed " << seed << " text " << text;
  }
}

}  // namespace
}  // namespace fasteep
