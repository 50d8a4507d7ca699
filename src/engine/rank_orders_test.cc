#include "engine/rank_orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fasteep {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

// The ranks are played by the test: what they were sent, and what came of each order.
class OrdersTest : public testing::Test {
 protected:
  uint64_t give(RankId rank, api::Order order) {
    return orders_.give(rank, std::move(order), {}, [this](const Result<api::Done>& done) {
      heard_.push_back(done ? fmt::format("digest {}", done->digest()) : done.error().message());
      if (!done) codes_.push_back(done.error().code());
    });
  }
  void answer(RankId rank, uint64_t ticket, uint64_t digest) {
    api::Done done;
    done.set_ticket(ticket);
    done.set_digest(digest);
    orders_.on_done(rank, done);
  }
  static api::Order canary() {
    api::Order order;
    order.mutable_canary();
    return order;
  }
  static api::Order fill() {
    api::Order order;
    order.mutable_fill();
    return order;
  }

  boost::asio::io_context loop_;
  std::vector<api::ToRank> sent_;
  std::vector<std::string> overdue_, heard_;
  std::vector<ErrorCode> codes_;
  RankOrders orders_{loop_,
                     {[this](RankId, const api::ToRank& message, std::vector<Descriptor>) {
                        sent_.push_back(message);
                      },
                      [this](RankId, const Error& error) { overdue_.push_back(error.message()); }},
                     {milliseconds(20), milliseconds(60)}};
};

TEST_F(OrdersTest, EachIsAnsweredOnceByItsOwnTicketAndRank) {
  const uint64_t first = give(RankId(0), canary()), second = give(RankId(1), canary());
  EXPECT_EQ(sent_.at(1).order().ticket(), second);
  answer(RankId(0), second, 5);  // another rank's
  answer(RankId(1), second, 7);
  answer(RankId(1), second, 8);
  EXPECT_THAT(heard_, ElementsAre("digest 7"));
  answer(RankId(0), first, 9);
  EXPECT_THAT(heard_, ElementsAre("digest 7", "digest 9"));
}

TEST_F(OrdersTest, TheRanksOwnErrorIsTheAnswer) {
  const uint64_t ticket = give(RankId(0), canary());
  api::Done done;
  done.set_ticket(ticket);
  done.mutable_error()->set_code(static_cast<uint32_t>(ErrorCode::kExhausted));
  done.mutable_error()->set_message("no room");
  orders_.on_done(RankId(0), done);
  EXPECT_THAT(heard_, ElementsAre("no room"));
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::kExhausted));
}

TEST_F(OrdersTest, ALostRankAnswersAllItsOrders) {
  give(RankId(0), canary());
  const uint64_t other = give(RankId(1), canary());
  give(RankId(0), fill());
  orders_.on_lost(RankId(0), make_error(ErrorCode::kPeerLost, "rank 0 is lost"));
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::kPeerLost, ErrorCode::kPeerLost));
  EXPECT_NE(orders_.find(RankId(1), other), nullptr);
}

TEST_F(OrdersTest, WithoutAnAnswerTheDeadlineIsOneAndTheRankIsToldToCancel) {
  const uint64_t ticket = give(RankId(0), canary());
  loop_.run_for(milliseconds(40));
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::kTimeout));
  EXPECT_THAT(heard_.at(0), HasSubstr("rank 0 did not run the canary"));
  EXPECT_EQ(sent_.back().order().cancel_order().cancelled(), ticket);
  EXPECT_EQ(overdue_.at(0), heard_.at(0));
  answer(RankId(0), ticket, 1);
  EXPECT_EQ(heard_.size(), 1u);
}

TEST_F(OrdersTest, WhoFillsAndShowsProgressIsWaitedFor) {
  give(RankId(0), fill());
  for (int i = 0; i < 4; ++i) {
    loop_.run_for(milliseconds(30));
    orders_.on_progress(RankId(0));
  }
  EXPECT_TRUE(heard_.empty());
  loop_.run_for(milliseconds(100));
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::kTimeout));
}

TEST_F(OrdersTest, ACancelledOneIsAnsweredByTheRank) {
  const uint64_t ticket = give(RankId(0), fill());
  orders_.cancel(RankId(0), ticket);
  EXPECT_EQ(sent_.back().order().cancel_order().cancelled(), ticket);
  EXPECT_TRUE(heard_.empty());
  orders_.cancel(RankId(0), ticket + 100);
  EXPECT_EQ(sent_.size(), 2u) << "what is not known is not cancelled";
}

}  // namespace
}  // namespace fasteep
