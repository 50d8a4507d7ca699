#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "exchange/test_world.h"
#include "exchange/window_layout.h"

namespace fasteep {
namespace {

using testing::HasSubstr;

// --- gone

TEST(Exchange, APeerThatDiesInMidCallIsReplaced) {
  TestWorld world(3, view_on(1, 3, {1, 2}));
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  world.exchange(0).watch_control(sockets[0], [&] {
    char byte;
    ASSERT_EQ(read(sockets[0], &byte, 1), 1);
    world.exchange(0).disconnect(RankId(1), Incarnation(1));
  });
  ServingThread second(world.exchange(2));  // rank 1 serves nothing
  std::jthread controller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_EQ(write(sockets[1], "d", 1), 1);
  });
  auto x = world[0].step(5, 20);
  ASSERT_TRUE(x) << x.error().message();
  EXPECT_TRUE(same_bits(*x, alone_step(5, 20)));
  EXPECT_GT(world.exchange(0).stats().reasked_rows, 0u);
  close(sockets[0]);
  close(sockets[1]);
}

TEST(Exchange, ALostRankWithoutReplicaIsNamed) {
  TestWorld world(3, view_on(1, 3, {2}));
  world.exchange(0).disconnect(RankId(2), Incarnation(1));
  auto x = world[0].step(5, 1);
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code(), ErrorCode::kPeerLost);
  EXPECT_THAT(x.error().message(),
              HasSubstr("of layer 0 were on rank 2, which is gone, and have no replica"));
}

TEST(Exchange, AnEndingPeerLeavesNobodyHanging) {
  TestWorld world(2, view_on(1, 2, {1}));
  std::jthread ender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    world.ranks[1].reset();
  });
  auto x = world[0].step(5, 1);
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code(), ErrorCode::kPeerLost);
}

TEST(Exchange, ASilentPeerIsReportedAfterTheDeadline) {
  TestWorld world(2, view_on(1, 2, {1}), [](ExchangeOptions& options) {
    options.call_deadline = std::chrono::milliseconds(30);
  });
  auto x = world[0].step(5, 1);
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(x.error().message(), HasSubstr("rank 1 has not answered a call for layer 0"));
}

TEST(Exchange, AnAnswerToACallGivenUpIsDropped) {
  // Expert 7 of each layer lies on rank 2, which is lost: calls to rank 1 are posted and given up.
  std::vector<std::vector<Replica>> replicas(kTestLayers * kTestExperts, {{RankId(1)}});
  for (int layer = 0; layer < kTestLayers; ++layer)
    replicas[layer * kTestExperts + 7] = {{RankId(2)}};
  const std::vector<Member> members{
      {RankId(0), Incarnation(1)}, {RankId(1), Incarnation(1)}, {RankId(2), Incarnation(1)}};
  const View view = View::create(Epoch(1), members, test_model(), replicas).value();
  TestWorld world(3, std::make_shared<const View>(view));
  world.exchange(0).disconnect(RankId(2), Incarnation(1));
  auto lost = world[0].step(5, 20);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), ErrorCode::kPeerLost);
  ASSERT_TRUE(world.exchange(1).serve_pending()) << "a call to rank 1 was under way";

  // The late answer lies there; the next call must not take it.
  for (int layer = 0; layer < kTestLayers; ++layer) world[1].hold({LayerId(layer), ExpertId(7)});
  world.exchange(0).see_view(view_on(2, 3, {1}));
  ServingThread serving(world.exchange(1));
  auto x = world[0].step(6, 20);
  ASSERT_TRUE(x) << x.error().message();
  EXPECT_TRUE(same_bits(*x, alone_step(6, 20)));
  EXPECT_EQ(world.exchange(0).stats().late_answers_dropped, 1u);
}

TEST(Exchange, StopEndsAWait) {
  TestWorld world(2, view_on(1, 2, {1}));
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  world.exchange(0).watch_control(sockets[0], [&] { world.exchange(0).request_stop(); });
  close(sockets[1]);
  auto x = world[0].step(5, 1);
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code(), ErrorCode::kCancelled);
  close(sockets[0]);
}

TEST(Exchange, ADeadIncarnationCannotComeBackANewOneCan) {
  TestWorld world(2, view_on(1, 2, {1}));
  const auto old = world[1].descriptors();
  world.exchange(0).disconnect(RankId(1), Incarnation(1));
  auto again = world.exchange(0).connect(old);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), ErrorCode::kStaleEpoch);

  ExchangeOptions options = test_options(1, 2);
  options.incarnation = Incarnation(2);
  auto restarted = make_rank(options);
  ASSERT_TRUE(world.exchange(0).connect(restarted->descriptors()));
  ASSERT_TRUE(restarted->exchange->connect(world[0].descriptors()));
  std::vector<std::vector<Replica>> replicas(kTestLayers * kTestExperts, {{RankId(1)}});
  const ViewPtr view = std::make_shared<const View>(
      View::create(Epoch(2), {{RankId(0), Incarnation(1)}, {RankId(1), Incarnation(2)}},
                   test_model(), replicas)
          .value());
  restarted->load(*view);
  restarted->exchange->see_view(view);
  world.exchange(0).see_view(view);
  ServingThread serving(*restarted->exchange);
  auto x = world[0].step(5, 20);
  ASSERT_TRUE(x) << x.error().message();
  EXPECT_TRUE(same_bits(*x, alone_step(5, 20)));
}

TEST(Exchange, CallsOfANonMemberAreNotServed) {
  TestWorld world(2, view_on(1, 2, {1}), [](ExchangeOptions& options) {
    options.call_deadline = std::chrono::milliseconds(30);
  });
  // Rank 1 has moved on to a view without rank 0.
  std::vector<std::vector<Replica>> replicas(kTestLayers * kTestExperts, {{RankId(1)}});
  world.exchange(1).see_view(std::make_shared<const View>(
      View::create(Epoch(2), {{RankId(1), Incarnation(1)}}, test_model(), replicas).value()));
  world.exchange(1).adopt_newest();
  ServingThread serving(world.exchange(1));
  EXPECT_FALSE(world[0].step(5, 1));
  serving.stop();
  EXPECT_EQ(world.exchange(1).stats().calls_served, 0u);
}

// --- hostile

// Writes over the window of a rank behind its back.
class Vandal {
 public:
  explicit Vandal(TestRank& rank)
      : layout_(rank.options),
        base_(static_cast<std::byte*>(mmap(nullptr, layout_.size_bytes, PROT_READ | PROT_WRITE,
                                           MAP_SHARED, rank.window_copy.get(), 0))),
        window_(base_, layout_) {}
  ~Vandal() { munmap(base_, layout_.size_bytes); }

  // A call that passes the first look: right incarnations, the rest drawn.
  void forge_call(RankId callee, Rng& rng) {
    const int lane = static_cast<int>(rng.below(kNumLanes));
    CallHeader& call = window_.call(callee, lane);
    call.caller_incarnation = 1;
    call.callee_incarnation = 1;
    call.layer = static_cast<int32_t>(rng.below(kTestLayers + 2)) - 1;
    const bool is_absurd = rng.below(2) == 0;
    call.num_entries = static_cast<uint32_t>(is_absurd ? rng.next_u64() : rng.below(20));
    for (int i = 0; i < 20; ++i) {
      const bool is_good = rng.below(4) != 0;
      window_.entries(callee, lane)[i] =
          is_good ? pack(CallEntry{static_cast<uint16_t>(rng.below(64)),
                                   static_cast<uint16_t>(rng.below(kTestExperts))})
                  : static_cast<uint32_t>(rng.next_u64());
    }
    call.sequence = rng.next_u64();
  }
  void scribble(Rng& rng) {  // anywhere before the rows of the answers
    for (int i = 0; i < 50; ++i) {
      const uint64_t word = rng.next_u64();
      std::memcpy(base_ + rng.below(layout_.answer_rows / 8) * 8, &word, sizeof(word));
    }
  }

 private:
  WindowLayout layout_;
  std::byte* base_;
  OwnWindow window_;
};

TEST(ExchangeHostile, ForgedAndTornCallsHarmNobody) {
  TestWorld world(3, view_on(1, 3, {1}));
  Vandal vandal(world[0]);
  std::atomic<bool> stop{false};
  std::jthread hostile([&] {
    Rng rng(1);
    while (!stop) {
      vandal.forge_call(RankId(1), rng);
      vandal.scribble(rng);
    }
  });
  ServingThread serving(world.exchange(1));
  for (uint64_t seed = 0; seed < 10; ++seed) {
    auto x = world[2].step(seed, 10);
    ASSERT_TRUE(x) << x.error().message();
    EXPECT_TRUE(same_bits(*x, alone_step(seed, 10)));
  }
  stop = true;
}

TEST(ExchangeHostile, ForgedCallsAreDroppedOrAnsweredWithinBounds) {
  TestWorld world(2, view_on(1, 2, {1}));
  Vandal vandal(world[0]);
  Rng rng(2);
  for (int i = 0; i < 300; ++i) {
    vandal.forge_call(RankId(1), rng);
    world.exchange(1).serve_pending();
    ASSERT_FALSE(world.exchange(1).serve_pending()) << "a bad call must not stay";
  }
  EXPECT_GT(world.exchange(1).stats().calls_served, 0u) << "some were good by chance";
}

TEST(ExchangeHostile, GarbageAnswersNeitherCrashNorHang) {
  TestWorld world(2, view_on(1, 2, {1}), [](ExchangeOptions& options) {
    options.call_deadline = std::chrono::milliseconds(50);
  });
  Vandal vandal(world[1]);
  std::atomic<bool> stop{false};
  std::jthread hostile([&] {
    Rng rng(3);
    while (!stop) vandal.scribble(rng);
  });
  auto x = world[0].step(5, 10);
  stop = true;
  EXPECT_FALSE(x) << "an answer needs the whole identity";
}

// --- processes

struct ChildFds {
  int window, doorbell, peer_window, peer_doorbell;
};

// Both windows are made before the children start, as the controller does.
std::unique_ptr<TestRank> start_child(int rank, const ChildFds& fds, const ViewPtr& view) {
  auto self = std::make_unique<TestRank>(test_options(rank, 2), fds.window, fds.doorbell);
  const RankId other(1 - rank);
  const bool connected = static_cast<bool>(
      self->exchange->connect({other, Incarnation(1), fds.peer_window, fds.peer_doorbell}));
  if (!connected) _exit(9);
  self->load(*view);
  self->exchange->see_view(view);
  self->exchange->adopt_newest();
  return self;
}

TEST(ExchangeProcesses, TwoProcessesAnswerAsOne) {
  const size_t size = Exchange::window_size_bytes(test_options(0, 2));
  const int windows[2] = {create_window_fd(size).value(), create_window_fd(size).value()};
  const int bells[2] = {create_doorbell().value(), create_doorbell().value()};
  const auto expected = alone_step(5, 20);
  const ViewPtr view = test_view(1, 2);
  pid_t children[2];
  for (int rank = 0; rank < 2; ++rank) {
    children[rank] = fork();
    ASSERT_GE(children[rank], 0);
    if (children[rank] > 0) continue;
    auto self = start_child(
        rank,
        {windows[rank], bells[rank], reopen_read_only(windows[1 - rank]).value(), bells[1 - rank]},
        view);
    if (rank == 1) {
      for (;;) self->exchange->wait(system_clock().now() + std::chrono::seconds(1));
    }
    bool is_same = true;
    for (int i = 0; i < 5 && is_same; ++i) {
      auto x = self->step(5, 20);
      is_same = x && same_bits(*x, expected);
    }
    _exit(is_same ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(children[0], &status, 0), children[0]);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  kill(children[1], SIGKILL);
  waitpid(children[1], &status, 0);
  for (int fd : {windows[0], windows[1], bells[0], bells[1]}) close(fd);
}

}  // namespace
}  // namespace fasteep
