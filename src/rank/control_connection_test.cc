#include "rank/control_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rank/api.pb.h"

namespace fasteep {
namespace {

struct Pair {
  ControlConnection a, b;
};

Pair connected() {
  auto sockets = create_control_pair();
  auto a = ControlConnection::open(std::move(sockets->first));
  auto b = ControlConnection::open(std::move(sockets->second));
  return {std::move(*a), std::move(*b)};
}

api::ToRank cancel(uint64_t id) {
  api::ToRank message;
  message.mutable_cancel()->set_id(id);
  return message;
}

api::ToRank submit_of(size_t tokens) {
  api::ToRank message;
  for (size_t i = 0; i < tokens; ++i) message.mutable_submit()->add_prompt(1 << 20);
  return message;
}

TEST(ControlConnection, MessagesArriveInOrder) {
  Pair pair = connected();
  for (uint64_t id : {1, 2, 3}) ASSERT_TRUE(pair.a.send(cancel(id)));
  ASSERT_TRUE(*pair.a.flush());
  ASSERT_TRUE(*pair.b.read());
  for (uint64_t id : {1, 2, 3}) {
    auto message = pair.b.next<api::ToRank>();
    ASSERT_TRUE(message && message->has_value());
    EXPECT_EQ((*message)->cancel().id(), id);
  }
  EXPECT_FALSE(pair.b.next<api::ToRank>()->has_value());
}

TEST(ControlConnection, AMessageBiggerThanTheSocketIsWrittenPieceByPiece) {
  Pair pair = connected();
  const size_t tokens = 1'000'000;
  ASSERT_TRUE(pair.a.send(submit_of(tokens)));
  ASSERT_TRUE(pair.a.send(cancel(9)));
  EXPECT_FALSE(*pair.a.flush());
  std::vector<api::ToRank> got;
  for (int i = 0; i < 10'000 && got.size() < 2; ++i) {
    ASSERT_TRUE(pair.a.flush());
    ASSERT_TRUE(*pair.b.read());
    auto message = pair.b.next<api::ToRank>();
    ASSERT_TRUE(message);
    if (message->has_value()) got.push_back(**message);
  }
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].submit().prompt_size(), static_cast<int>(tokens));
  EXPECT_EQ(got[1].cancel().id(), 9u);
  EXPECT_EQ(pair.a.pending_bytes(), 0u);
}

TEST(ControlConnection, DescriptorsComeWithTheirMessages) {
  Pair pair = connected();
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  std::vector<Descriptor> both;
  both.emplace_back(pipe_ends[0]);
  both.emplace_back(pipe_ends[1]);
  ASSERT_TRUE(pair.a.send(cancel(1)));
  ASSERT_TRUE(pair.a.send(cancel(2), std::move(both)));
  ASSERT_TRUE(*pair.a.flush());
  ASSERT_TRUE(*pair.b.read());
  auto reader = pair.b.take_descriptor();
  auto writer = pair.b.take_descriptor();
  ASSERT_TRUE(reader && writer);
  ASSERT_EQ(write(writer->get(), "x", 1), 1);
  char byte = 0;
  ASSERT_EQ(::read(reader->get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_FALSE(pair.b.take_descriptor());
}

TEST(ControlConnection, WhatWasSentBeforeTheEndIsStillRead) {
  Pair pair = connected();
  ASSERT_TRUE(pair.a.send(cancel(5)));
  ASSERT_TRUE(*pair.a.flush());
  { ControlConnection gone = std::move(pair.a); }
  ASSERT_FALSE(*pair.b.read());
  EXPECT_EQ(pair.b.next<api::ToRank>()->value().cancel().id(), 5u);
}

TEST(ControlConnection, RefusesWhatIsNoMessage) {
  auto sockets = create_control_pair();
  auto b = ControlConnection::open(std::move(sockets->second));
  const std::string bytes("\x03\x00\x00\x00\xff\xff\xff", 7);
  ASSERT_EQ(write(sockets->first.get(), bytes.data(), bytes.size()), 7);
  ASSERT_TRUE(*b->read());
  auto message = b->next<api::ToRank>();
  ASSERT_FALSE(message);
  EXPECT_NE(message.error().message().find("fasteep.api.ToRank"), std::string::npos);
}

TEST(ControlConnection, AWriterIsStoppedWhenNobodyReads) {
  Pair pair = connected();
  const api::ToRank big = submit_of(4'000'000);
  Result<void> sent;
  for (int i = 0; i < 10 && sent; ++i) sent = pair.a.send(big);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), ErrorCode::kExhausted);
}

}  // namespace
}  // namespace fasteep
