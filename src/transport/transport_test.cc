#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <thread>

#include "transport/doorbell.h"
#include "transport/window.h"

namespace fasteep {
namespace {

constexpr size_t kSize = 1 << 16;
constexpr WindowIdentity kIdentity{3, RankId(2), Incarnation(5)};

struct Pair {
  int own_fd = create_window_fd(kSize).value();
  int peer_fd = reopen_read_only(own_fd).value();
};

TEST(Window, PeerSeesWhatTheOwnerWrites) {
  Pair pair;
  Window own = Window::open_own(Descriptor(pair.own_fd), kSize, kIdentity).value();
  Window peer = Window::open_peer(Descriptor(pair.peer_fd), kSize, kIdentity).value();
  own.own_data()[5000] = std::byte{7};
  EXPECT_EQ(peer.data()[5000], std::byte{7});
  EXPECT_TRUE(peer.is_open().value());
}

TEST(Window, PeerMayConnectBeforeTheOwnerHasOpened) {
  Pair pair;
  Window peer = Window::open_peer(Descriptor(pair.peer_fd), kSize, kIdentity).value();
  EXPECT_FALSE(peer.is_open().value());
  Window own = Window::open_own(Descriptor(pair.own_fd), kSize, kIdentity).value();
  EXPECT_TRUE(peer.is_open().value());
}

TEST(Window, ThePeersDescriptorCannotWriteOrResize) {
  Pair pair;
  EXPECT_EQ(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, pair.peer_fd, 0), MAP_FAILED);
  EXPECT_NE(ftruncate(pair.own_fd, 0), 0) << "shrinking would kill the peers";
  close(pair.own_fd);
  close(pair.peer_fd);
}

TEST(Window, RefusesAnotherSize) {
  Pair pair;
  auto own = Window::open_own(Descriptor(pair.own_fd), 2 * kSize, kIdentity);
  auto peer = Window::open_peer(Descriptor(pair.peer_fd), 2 * kSize, kIdentity);
  ASSERT_FALSE(own || peer);
  EXPECT_THAT(peer.error().message(), testing::HasSubstr("65536 bytes, expected 131072"));
}

TEST(Window, RefusesAnotherVersionOrIncarnation) {
  Pair pair;
  Window own = Window::open_own(Descriptor(pair.own_fd), kSize, kIdentity).value();
  WindowIdentity newer = kIdentity;
  newer.version = 4;
  auto peer = Window::open_peer(Descriptor(dup(pair.peer_fd)), kSize, newer);
  ASSERT_FALSE(peer);
  EXPECT_THAT(peer.error().message(), testing::HasSubstr("layout 3"));
  WindowIdentity restarted = kIdentity;
  restarted.incarnation = Incarnation(6);
  EXPECT_FALSE(Window::open_peer(Descriptor(pair.peer_fd), kSize, restarted));
}

TEST(Window, RefusesAMemfdThatCanShrink) {
  const int fd = memfd_create("loose", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, kSize), 0);
  auto peer = Window::open_peer(Descriptor(fd), kSize, kIdentity);
  ASSERT_FALSE(peer);
  EXPECT_THAT(peer.error().message(), testing::HasSubstr("can shrink"));
}

struct Bell {
  Pair pair;
  Window own = Window::open_own(Descriptor(pair.own_fd), kSize, kIdentity).value();
  Window peer = Window::open_peer(Descriptor(pair.peer_fd), kSize, kIdentity).value();
  int fd = create_doorbell().value();
  Sleeper sleeper{Descriptor(fd), own.own_header().sleeping};
};

TEST(Doorbell, NoWakeIsLost) {
  Bell bell;
  std::atomic<int> published{0}, seen{0};
  constexpr int kRounds = 2000;
  std::jthread ringer([&] {
    for (int round = 1; round <= kRounds; ++round) {
      published.store(round, std::memory_order_release);
      fence_before_ringing();
      ring_for_work(bell.peer.header(), bell.fd);
      while (seen.load(std::memory_order_acquire) != round) std::this_thread::yield();
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    auto there = [&] { return published.load(std::memory_order_acquire) == round; };
    const TimePoint limit = system_clock().now() + std::chrono::seconds(20);
    while (!there() && system_clock().now() < limit) {
      bell.sleeper.sleep(Sleep::kForWork, -1, std::chrono::seconds(20), there);
    }
    ASSERT_TRUE(there()) << "slept through round " << round;
    seen.store(round, std::memory_order_release);
  }
}

TEST(Doorbell, AnAwakeRankIsNotRung) {
  Bell bell;
  ring_for_work(bell.peer.header(), bell.fd);
  EXPECT_FALSE(is_readable(bell.fd));
}

TEST(Doorbell, ProgressWakesOnlyWhoAskedForIt) {
  Bell bell;
  bell.own.own_header().sleeping = static_cast<uint32_t>(Sleep::kForWork);
  ring_for_progress(bell.peer.header(), bell.fd);
  EXPECT_FALSE(is_readable(bell.fd));
  bell.own.own_header().sleeping = static_cast<uint32_t>(Sleep::kForProgress);
  ring_for_progress(bell.peer.header(), bell.fd);
  EXPECT_TRUE(is_readable(bell.fd));
}

TEST(Doorbell, ControlConnectionAndDeadlineWake) {
  Bell bell;
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  auto nothing = [] { return false; };
  const Woken late =
      bell.sleeper.sleep(Sleep::kForWork, sockets[0], std::chrono::milliseconds(1), nothing);
  EXPECT_TRUE(late.slept);
  EXPECT_FALSE(late.control);
  close(sockets[1]);
  EXPECT_TRUE(
      bell.sleeper.sleep(Sleep::kForWork, sockets[0], std::chrono::seconds(20), nothing).control);
  close(sockets[0]);
}

}  // namespace
}  // namespace fasteep
