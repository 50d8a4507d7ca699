// Arbitrary bytes as a peer's window, laid over its progress word, calls and answers: a rank serves
// what it finds there, and calls that peer.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "exchange/exchange.h"
#include "exchange/window_layout.h"
#include "transport/doorbell.h"
#include "transport/window.h"

namespace fasteep {
namespace {

constexpr int kExperts = 4;

ExchangeOptions options_of(int rank) {
  ExchangeOptions options;
  options.rank = RankId(rank);
  options.incarnation = Incarnation(1);
  options.max_ranks = 2;
  options.max_rows = 4;
  options.top_k = 2;
  options.shape = {DType::kFloat32, 8, 8};
  options.may_spin = false;
  options.call_deadline = Duration(0);  // one look at the answers
  return options;
}

// Rank 0 under test, rank 1 the window that the bytes go to. Rank 0 holds experts 0 and 1, the view
// gives 2 and 3 to rank 1.
struct World {
  World() : layout(options_of(1)) {
    const int peer_fd = create_window_fd(layout.size_bytes).value();
    base = static_cast<std::byte*>(
        mmap(nullptr, layout.size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, peer_fd, 0));
    CHECK(base != MAP_FAILED, "mmap");
    const WindowIdentity identity{kLayoutVersion, RankId(1), Incarnation(1)};
    window = std::make_unique<Window>(
        Window::open_own(Descriptor(dup(peer_fd)), layout.size_bytes, identity).value());
    for (int expert = 0; expert < 2; ++expert) {
      const SlotId slot = slots.acquire().value();
      std::memset(slots.data(slot), 0, slots.slot_bytes());
      slots.publish(slot, {LayerId(0), ExpertId(expert)});
    }
    exchange = Exchange::create(options_of(0), create_window_fd(layout.size_bytes).value(),
                                create_doorbell().value(), slots, kernels, system_clock())
                   .value();
    const PeerDescriptors peer{RankId(1), Incarnation(1), reopen_read_only(peer_fd).value(),
                               create_doorbell().value()};
    exchange->connect(peer).value();
    const std::vector<std::vector<Replica>> replicas{
        {{RankId(0)}}, {{RankId(0)}}, {{RankId(1)}}, {{RankId(1)}}};
    exchange->see_view(std::make_shared<const View>(
        View::create(Epoch(1), {{RankId(0), Incarnation(1)}, {RankId(1), Incarnation(1)}},
                     {{LayerId(0)}, kExperts}, replicas)
            .value()));
    exchange->adopt_newest();
  }

  WindowLayout layout;
  std::byte* base = nullptr;
  std::unique_ptr<Window> window;
  DeviceLedger ledger{size_t{64} << 20};
  ExpertSlots slots{
      ExpertSlots::create(kExperts, ffn_size_bytes(options_of(0).shape), ledger).value()};
  ThreadPool pool{1};
  Kernels kernels{Isa::kPortable, pool};
  std::unique_ptr<Exchange> exchange;
};

// Incarnations that pass the first look, else nearly all inputs end there.
void make_plausible(World& world) {
  const OwnWindow window(world.base, world.layout);
  for (int lane = 0; lane < kNumLanes; ++lane) {
    window.call(RankId(0), lane).caller_incarnation = 1;
    window.call(RankId(0), lane).callee_incarnation = 1;
    window.answer(RankId(0), lane).caller_incarnation = 1;
  }
}

}  // namespace
}  // namespace fasteep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fasteep;
  static World& world = *new World;  // kept: creating one costs a thousand inputs
  if (size < 1) return 0;
  const bool is_plausible = data[0] & 1;
  // The bytes are repeated from the first call on, so that short inputs reach the answers, too.
  const size_t end = world.layout.answer_rows;
  for (size_t at = world.layout.calls; at < end; at += size) {
    std::memcpy(world.base + at, data, std::min(size, end - at));
  }
  std::memcpy(world.base + offsetof(ExchangeHeader, progress), data, std::min<size_t>(size, 8));
  if (is_plausible) make_plausible(world);
  world.exchange->serve_pending();

  const float rows[8] = {1, 2, 3};
  const int32_t ids[2] = {0, 3};
  const float weights[2] = {0.5f, 0.5f};
  float x[8] = {};
  auto done =
      world.exchange->run_layer(LayerId(0), {rows, 1, 8}, {ids, 1, 2}, {weights, 1, 2}, {x, 1, 8});
  if (!done) CHECK(!done.error().message().empty(), "an error without text");
  return 0;
}
