#include "engine/event_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fasteep {
namespace {

using testing::ElementsAre;

class FeedTest : public testing::Test {
 protected:
  void run() {
    for (auto& function : std::exchange(due_, {})) function();
  }
  std::shared_ptr<void> listen(uint64_t after, std::vector<uint64_t>& heard) {
    return feed_.subscribe(
        after, [&heard](const ElasticEvent& event) { heard.push_back(event.sequence); });
  }
  std::vector<std::function<void()>> due_;
  EventFeed feed_{[this](std::function<void()> function) { due_.push_back(std::move(function)); }};
};

TEST_F(FeedTest, WhoComesLaterHearsThePastThenThePresentEachOnce) {
  feed_.publish("a", "{}");
  feed_.publish("b", "{}");
  std::vector<uint64_t> all, later;
  const auto first = listen(0, all);
  EXPECT_TRUE(all.empty()) << "not from inside subscribe()";
  const auto second = listen(1, later);
  feed_.publish("c", "{}");
  run();
  EXPECT_THAT(all, ElementsAre(1, 2, 3));
  EXPECT_THAT(later, ElementsAre(2, 3));
}

TEST_F(FeedTest, WithoutItsTokenNobodyHearsAnything) {
  std::vector<uint64_t> heard;
  auto token = listen(0, heard);
  feed_.publish("a", "{}");
  run();
  token.reset();
  feed_.publish("b", "{}");
  run();
  EXPECT_THAT(heard, ElementsAre(1));
}

TEST_F(FeedTest, AListenerMayEndItselfAndCauseEvents) {
  std::vector<uint64_t> heard;
  std::shared_ptr<void> token;
  token = feed_.subscribe(0, [&](const ElasticEvent& event) {
    heard.push_back(event.sequence);
    if (event.sequence == 1) feed_.publish("b", "{}");
    if (event.sequence == 2) token.reset();
  });
  feed_.publish("a", "{}");
  run();
  feed_.publish("c", "{}");
  run();
  EXPECT_THAT(heard, ElementsAre(1, 2));
}

TEST_F(FeedTest, KeepsTheLastThousands) {
  for (int i = 0; i < 5000; ++i) feed_.publish("a", "{}");
  std::vector<uint64_t> heard;
  const auto token = listen(0, heard);
  run();
  ASSERT_EQ(heard.size(), 4096u);
  EXPECT_EQ(heard.back(), 5000u);
}

}  // namespace
}  // namespace fasteep
