#include "exchange/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "exchange/test_world.h"
#include "exchange/window_layout.h"

namespace fasteep {
namespace {

using testing::HasSubstr;

// Where a peer can read what a rank has written.
struct Observer {
  explicit Observer(TestRank& rank)
      : layout(rank.options),
        window(Window::open_peer(Descriptor(dup(rank.window_copy.get())), layout.size_bytes,
                                 {kLayoutVersion, rank.options.rank, rank.options.incarnation})
                   .value()),
        view(window.data(), layout) {}
  WindowLayout layout;
  Window window;
  PeerWindow view;
};

// Each rank makes `steps` steps of its own and serves until all ranks are done.
void run_all(TestWorld& world, int steps, void (*change)(ExchangeOptions&)) {
  const int n = static_cast<int>(world.ranks.size());
  std::atomic<int> running{n};
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      for (int step = 0; step < steps; ++step) {
        const uint64_t seed = 50 + rank * 7 + step;
        const int rows = 1 + (rank * 5 + step * 11) % 30;
        auto x = world[rank].step(seed, rows);
        ASSERT_TRUE(x) << x.error().message();
        EXPECT_TRUE(same_bits(*x, alone_step(seed, rows, change))) << "rank " << rank;
      }
      --running;
      while (running.load() > 0)
        world.exchange(rank).wait(system_clock().now() + std::chrono::milliseconds(2));
    });
  }
}

struct Case {
  int ranks;
  int redundant;
  bool may_spin;
  DType dtype;
};
Case current;
void set_case(ExchangeOptions& options) {
  options.may_spin = current.may_spin;
  options.shape.dtype = current.dtype;
}
class EqualBits : public testing::TestWithParam<Case> {};

TEST_P(EqualBits, AsARankThatHoldsEverything) {
  current = GetParam();
  TestWorld world(current.ranks, test_view(1, current.ranks, current.redundant), set_case);
  run_all(world, 4, set_case);
  EXPECT_EQ(world.exchange(0).stats().calls_sent > 0, current.ranks > 1);
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, EqualBits,
    testing::Values(Case{1, 0, true, DType::kFloat32}, Case{2, 0, true, DType::kFloat32},
                    Case{2, 3, false, DType::kBFloat16}, Case{3, 0, false, DType::kFloat32},
                    Case{5, 4, true, DType::kFloat32}, Case{5, 0, false, DType::kBFloat16}));

TEST(Exchange, AnIdleRankServesAndMakesNoSteps) {
  TestWorld world(2, test_view(1, 2));
  ServingThread serving(world.exchange(1));
  auto x = world[0].step(9, 5);
  serving.stop();
  ASSERT_TRUE(x);
  EXPECT_TRUE(same_bits(*x, alone_step(9, 5)));
  EXPECT_EQ(world.exchange(1).stats().layer_steps, 0u);
  EXPECT_GT(world.exchange(1).stats().rows_served, 0u);
}

TEST(Exchange, AnIdleRankSleepsUntilACallWakesIt) {
  TestWorld world(2, view_on(1, 2, {1}));
  std::jthread idle([&] {
    while (world.exchange(1).stats().calls_served < kTestLayers)
      world.exchange(1).wait(system_clock().now() + std::chrono::seconds(20));
  });
  const TimePoint start = system_clock().now();
  Observer observer(world[1]);
  while (observer.window.header().sleeping.load() == 0) std::this_thread::yield();
  ASSERT_TRUE(world[0].step(9, 5));
  idle.join();
  EXPECT_LT(system_clock().now() - start, std::chrono::seconds(20)) << "woken by the deadline";
  EXPECT_GE(world.exchange(1).stats().sleeps, 1u);
}

TEST(Exchange, LargeSetsAreSplit) {
  // Rows so wide that an answer of 4 MiB holds few of them.
  static constexpr int kHidden = 16384;
  ExchangeOptions options = test_options(0, 2);
  options.shape.hidden = kHidden;
  const WindowLayout layout(options);
  EXPECT_LT(layout.max_entries, options.max_rows * options.top_k);
  EXPECT_LE(layout.max_entries * sizeof(float) * kHidden, kMaxAnswerBytes);
  std::vector<std::unique_ptr<TestRank>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    options.rank = RankId(rank);
    options.shape.intermediate = 1;
    ranks.push_back(make_rank(options));
  }
  const ViewPtr view = view_on(1, 2, {1});
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(ranks[rank]->exchange->connect(ranks[1 - rank]->descriptors()));
    for (int expert = 0; expert < kTestExperts; ++expert)
      ranks[rank]->hold({LayerId(0), ExpertId(expert)});
    ranks[rank]->exchange->see_view(view);
    ranks[rank]->exchange->adopt_newest();
  }
  const LayerInput routing(3, 64);
  const auto values = random_floats(4, size_t{64} * kHidden);
  auto run = [&](TestRank& rank) {
    std::vector<float> x(values);
    EXPECT_TRUE(rank.exchange->run_layer(
        LayerId(0), {values.data(), 64, kHidden}, {routing.ids.data(), 64, kTestTopK},
        {routing.weights.data(), 64, kTestTopK}, {x.data(), 64, kHidden}));
    return x;
  };
  const auto local = run(*ranks[1]);
  ServingThread serving(*ranks[1]->exchange);
  EXPECT_TRUE(same_bits(run(*ranks[0]), local));
  EXPECT_GT(ranks[0]->exchange->stats().calls_sent, uint64_t{kNumLanes});
}

// --- refused

TEST(Exchange, ARefusedCallGoesToAReplica) {
  TestWorld world(3, view_on(1, 3, {1, 2}));
  for (int expert = 0; expert < kTestExperts; ++expert)
    world[1].slots.withdraw({LayerId(1), ExpertId(expert)});
  ServingThread first(world.exchange(1)), second(world.exchange(2));
  auto x = world[0].step(5, 20);
  ASSERT_TRUE(x) << x.error().message();
  EXPECT_TRUE(same_bits(*x, alone_step(5, 20)));
  EXPECT_GT(world.exchange(0).stats().reasked_rows, 0u);
}

TEST(Exchange, AnExpertWithdrawnFromTheOwnRankIsAskedElsewhere) {
  TestWorld world(2, view_on(1, 2, {0, 1}));
  world[0].slots.withdraw({LayerId(1), ExpertId(3)});
  ServingThread serving(world.exchange(1));
  auto x = world[0].step(5, 20);
  ASSERT_TRUE(x) << x.error().message();
  EXPECT_TRUE(same_bits(*x, alone_step(5, 20)));
}

TEST(Exchange, ARefusalWithoutReplicaIsAClearError) {
  TestWorld world(2, view_on(1, 2, {1}));
  world[1].slots.withdraw({LayerId(1), ExpertId(3)});
  ServingThread serving(world.exchange(1));
  auto x = world[0].step(5, 20);
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code(), ErrorCode::kPeerLost);
  EXPECT_THAT(x.error().message(),
              HasSubstr("expert 3 of layer 1 was refused by rank 1 under epoch 1"));
}

TEST(Exchange, ARefusalUnderANewerViewWaitsForThatView) {
  TestWorld world(3, view_on(1, 3, {1}));
  // The experts have moved from rank 1 to rank 2; rank 0 has not heard of it.
  const ViewPtr moved = view_on(2, 3, {2});
  world[2].load(*moved);
  world.exchange(1).see_view(moved);
  world.exchange(2).see_view(moved);
  for (ExpertKey key : world[1].slots.held()) world[1].slots.withdraw(key);
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  world.exchange(0).watch_control(sockets[0], [&] {
    char byte;
    ASSERT_EQ(read(sockets[0], &byte, 1), 1);
    world.exchange(0).see_view(moved);
  });
  ServingThread first(world.exchange(1)), second(world.exchange(2));
  std::jthread controller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_EQ(write(sockets[1], "v", 1), 1);
  });
  auto x = world[0].step(5, 20);
  ASSERT_TRUE(x) << x.error().message();
  EXPECT_TRUE(same_bits(*x, alone_step(5, 20)));
  EXPECT_EQ(world.exchange(0).adopted_epoch(), Epoch(1)) << "adopted between steps only";
  EXPECT_EQ(world.exchange(0).newest_epoch(), Epoch(2));
  close(sockets[0]);
  close(sockets[1]);
}

// --- together

TEST(Exchange, ACallThatWaitsSharesTheComputationOfTheOwnRows) {
  TestWorld world(2, view_on(1, 2, {1}));
  std::jthread other([&] { EXPECT_TRUE(world[0].layer(0, LayerInput(5, 20))); });
  Observer observer(world[0]);
  while (observer.view.call(RankId(1), 0).sequence.load() == 0) std::this_thread::yield();
  auto x = world[1].layer(0, LayerInput(6, 20));
  ASSERT_TRUE(x);
  other.join();
  EXPECT_EQ(world.exchange(1).stats().gathers, 1u);
  EXPECT_EQ(world.exchange(1).stats().calls_served, 1u);
  TestWorld alone(1, test_view(1, 1));
  EXPECT_TRUE(same_bits(*x, alone[0].layer(0, LayerInput(6, 20)).value()));
}

void long_gather(ExchangeOptions& options) { options.gather_limit = std::chrono::seconds(10); }

TEST(Exchange, WaitsForACallThatIsNear) {
  TestWorld world(2, view_on(1, 2, {1}), long_gather);
  world.exchange(0).begin_step();
  world.exchange(1).begin_step();
  std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its attention
    EXPECT_TRUE(world[0].layer(0, LayerInput(5, 20)));
  });
  ASSERT_TRUE(world[1].layer(0, LayerInput(6, 20)));
  other.join();
  EXPECT_EQ(world.exchange(1).stats().gathers, 1u);
  EXPECT_EQ(world.exchange(1).stats().gather_timeouts, 0u);
  EXPECT_GE(world.exchange(1).stats().sleeps, 1u);
}

TEST(Exchange, DoesNotWaitForAPeerThatHasPostedWithoutCalling) {
  TestWorld world(2, view_on(1, 2, {0, 1}), long_gather);  // both hold everything
  world.exchange(0).begin_step();
  world.exchange(1).begin_step();
  const TimePoint start = system_clock().now();
  std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(world[0].layer(0, LayerInput(5, 2)));
    world.exchange(0).end_step();
  });
  ASSERT_TRUE(world[1].layer(0, LayerInput(6, 2)));
  other.join();
  EXPECT_EQ(world.exchange(1).stats().gather_timeouts, 0u);
  EXPECT_LT(system_clock().now() - start, std::chrono::seconds(10));
}

TEST(Exchange, NobodyIsGatheredForWhenAllOthersAreIdle) {
  TestWorld world(2, view_on(1, 2, {0, 1}), long_gather);
  ASSERT_TRUE(world[0].step(5, 2));
  EXPECT_EQ(world.exchange(0).stats().gather_timeouts, 0u);
  EXPECT_EQ(world.exchange(0).stats().sleeps, 0u);
}

TEST(Exchange, WrongOptionsAreNamed) {
  ExchangeOptions options = test_options(2, 2);
  TestWorld world(1, test_view(1, 1));
  auto wrong = Exchange::create(options, -1, -1, world[0].slots, world[0].kernels, system_clock());
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message(), HasSubstr("rank 2 of 2"));
}

}  // namespace
}  // namespace fasteep
