#include "exchange/exchange.h"

#include <algorithm>
#include <utility>

#include "exchange/caller.h"
#include "exchange/expert_batch.h"
#include "exchange/expert_service.h"
#include "exchange/gather.h"
#include "exchange/membership.h"
#include "exchange/window_layout.h"
#include "transport/doorbell.h"

namespace fasteep {
namespace {
constexpr Duration kSpin = std::chrono::microseconds(50);  // a futex wake costs 20
constexpr Duration kControlInterval = std::chrono::milliseconds(1);

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

Result<void> check_options(const ExchangeOptions& options) {
  if (options.max_ranks < 1 || options.max_ranks > kMaxRanks)
    return invalid_input("{} ranks: at least 1, at most {}", options.max_ranks, kMaxRanks);
  if (options.rank.value < 0 || options.rank.value >= options.max_ranks)
    return invalid_input("rank {} of {}", options.rank, options.max_ranks);
  if (options.incarnation.value == 0) return invalid_input("incarnations start at 1");
  if (options.max_rows < 1 || options.max_rows > 65535)
    return invalid_input("{} rows per step: at least 1, at most 65535", options.max_rows);
  if (options.top_k < 1 || options.shape.hidden < 1)
    return invalid_input("top_k {} and hidden {} must be positive", options.top_k,
                         options.shape.hidden);
  return {};
}
}  // namespace

// Wait points (pause, poll_control) may change the membership under the feet of their callers: no
// pointer into a peer's window is kept across one.
struct Exchange::State {
  State(const ExchangeOptions& given, const WindowLayout& window_layout, Window own_window,
        Descriptor doorbell, ExpertSlots& slots, Kernels& given_kernels, const Clock& given_clock)
      : options(given),
        layout(window_layout),
        window(std::move(own_window)),
        own(window.own_data(), layout),
        membership(options, layout),
        service(options, layout, own, membership, stats),
        caller(options, layout, own, membership, stats),
        batch(options.shape, slots, given_kernels),
        sleeper(std::move(doorbell), window.own_header().sleeping),
        kernels(given_kernels),
        clock(given_clock),
        gather_budget(options.gather_limit) {}

  ExchangeOptions options;
  WindowLayout layout;
  Window window;
  OwnWindow own;
  ExchangeStats stats;
  Membership membership;
  ExpertService service;
  Caller caller;
  ExpertBatch batch;
  Sleeper sleeper;
  Kernels& kernels;
  const Clock& clock;

  Progress progress;
  bool is_in_step = false, is_stopped = false;
  GatherBudget gather_budget;
  TimePoint control_checked{};
  int control_fd = -1;
  std::function<void()> on_control;

  // The layer call, in the order of the protocol.
  Result<void> run(Span2<const float> rows, LayerId layer, Span2<const int32_t> ids);
  Result<void> post_calls(Span2<const float> rows, LayerId layer, Span2<const int32_t> ids);
  void gather(LayerId layer);
  void compute(LayerId layer);
  Result<void> await_answers(LayerId layer);
  bool advance();
  Error timeout_error(LayerId layer) const;

  bool serve_all();
  bool is_anyone_near(LayerId layer) const;
  void tell(Phase phase, LayerId layer);
  void beat();
  void poll_control();
  void call_control();
  template <class Predicate>
  void pause(Sleep reason, TimePoint deadline, Predicate there_is_something);
};

void Exchange::State::beat() {
  std::atomic<uint64_t>& heartbeat = own.header().heartbeat;
  heartbeat.store(heartbeat.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void Exchange::State::call_control() {
  control_checked = clock.now();
  if (on_control) on_control();
}

// While there is always work the rank never sleeps; the control connection must be heard even so.
void Exchange::State::poll_control() {
  if (control_fd < 0 || clock.now() - control_checked < kControlInterval) return;
  control_checked = clock.now();
  if (is_readable(control_fd)) call_control();
}

// Waits until there is something, the deadline has passed, or the control connection had its say.
template <class Predicate>
void Exchange::State::pause(Sleep reason, TimePoint deadline, Predicate there_is_something) {
  auto is_over = [&] {
    membership.check_windows();  // a call may lie in a window that opens only now
    return is_stopped || there_is_something();
  };
  const TimePoint start = clock.now();
  if (options.may_spin) {
    const TimePoint spin_end = std::min(deadline, start + kSpin);
    while (clock.now() < spin_end) {
      if (is_over()) return;
      pause_cpu();
    }
  }
  const Duration left = deadline - clock.now();
  if (left <= Duration::zero()) return;
  const Woken woken = sleeper.sleep(reason, control_fd, left, is_over);
  stats.sleeps += woken.slept;
  beat();
  if (woken.control) call_control();
}

// Peers that gather read this word; those that sleep for it are rung.
void Exchange::State::tell(Phase phase, LayerId layer) {
  if (!is_in_step && phase != Phase::kIdle) return;
  progress.phase = phase;
  progress.layer = layer;
  own.header().progress.store(pack(progress), std::memory_order_release);
  fence_before_ringing();
  for (const Peer* peer : membership.connected()) {
    ring_for_progress(peer->header(), peer->doorbell.get());
  }
}

bool Exchange::State::is_anyone_near(LayerId layer) const {
  const auto layers = membership.moe_layers();
  const auto found = std::ranges::lower_bound(layers, layer);
  const int at = static_cast<int>(found - layers.begin());
  return std::ranges::any_of(membership.connected(), [&](const Peer* peer) {
    if (!peer->is_open || !peer->is_member) return false;
    const auto word = peer->view.header().progress.load(std::memory_order_acquire);
    return is_near(layers_behind(unpack_progress(word), layers, at),
                   static_cast<int>(layers.size()), service.has_call(*peer, layer), is_in_step);
  });
}

// Calls for other layers are served meanwhile: their callers may be the ones that are near.
void Exchange::State::gather(LayerId layer) {
  Duration waited{};
  while (!is_stopped && is_anyone_near(layer)) {
    const TimePoint now = clock.now();
    const Duration left = gather_budget.left(now) - waited;
    if (left <= Duration::zero()) {
      ++stats.gather_timeouts;
      break;
    }
    if (auto other = service.next_layer(layer)) {
      compute(*other);
      continue;
    }
    pause(Sleep::kForProgress, now + left,
          [&] { return service.next_layer(layer) || !is_anyone_near(layer); });
    waited += clock.now() - now;
  }
  gather_budget.on_waited(waited);
}

// Own entries (if `layer` is the one in progress) and all waiting calls go through the experts
// together.
void Exchange::State::compute(LayerId layer) {
  batch.start(layer, membership.num_experts());
  caller.add_own(batch);
  const bool has_own = !batch.is_empty();
  const int num_calls = service.join(batch);
  if (num_calls + has_own > 1) ++stats.gathers;
  if (!batch.is_empty()) {
    const TimePoint start = clock.now();
    batch.run();
    gather_budget.on_computed(clock.now() - start, num_calls + has_own > 1);
  }
  service.publish();
  if (caller.is_active() && caller.plan().layer() == layer) caller.settle_own();
}

bool Exchange::State::serve_all() {
  membership.check_windows();
  const int limit = kNumLanes * static_cast<int>(membership.connected().size());
  int served = 0;
  for (; served < limit; ++served) {
    const auto layer = service.next_layer();
    if (!layer) break;
    compute(*layer);
  }
  return served > 0;
}

Result<void> Exchange::State::run(Span2<const float> rows, LayerId layer,
                                  Span2<const int32_t> ids) {
  beat();
  ++stats.layer_steps;
  FASTEEP_TRY_VOID(post_calls(rows, layer, ids));
  gather(layer);
  compute(layer);
  return await_answers(layer);
}

Result<void> Exchange::State::post_calls(Span2<const float> rows, LayerId layer,
                                         Span2<const int32_t> ids) {
  tell(Phase::kPosting, layer);
  membership.check_windows();
  kernels.round_rows(rows, options.shape.dtype, own.outbox_row(0));
  caller.start(layer, ids);
  caller.post();
  tell(Phase::kPosted, layer);
  if (caller.plan().is_lost()) return caller.plan().loss();
  return {};
}

// One turn: whatever has come. Returns whether there was anything.
bool Exchange::State::advance() {
  bool any = caller.collect();
  if (caller.has_own()) {
    compute(caller.plan().layer());
    any = true;
  }
  any |= serve_all();
  any |= caller.post();
  poll_control();
  return any;
}

Result<void> Exchange::State::await_answers(LayerId layer) {
  TimePoint deadline = clock.now() + options.call_deadline;
  int missing = caller.plan().num_missing();
  while (!caller.plan().is_done()) {
    const bool any = advance();
    if (is_stopped) return make_error(ErrorCode::kCancelled, "stop was requested");
    if (caller.plan().is_lost()) return caller.plan().loss();
    if (caller.plan().num_missing() < missing) {
      missing = caller.plan().num_missing();
      deadline = clock.now() + options.call_deadline;
    }
    if (!caller.plan().is_done() && clock.now() >= deadline) return timeout_error(layer);
    if (any) continue;
    pause(Sleep::kForWork, deadline,
          [&] { return caller.has_answer() || service.has_call() || caller.plan().is_lost(); });
  }
  return {};
}

Error Exchange::State::timeout_error(LayerId layer) const {
  const double limit_s = seconds(options.call_deadline);
  if (const auto rank = caller.waits_for()) {
    return make_error(ErrorCode::kTimeout, "rank {} has not answered a call for layer {} in {} s",
                      *rank, layer, limit_s);
  }
  return make_error(ErrorCode::kTimeout,
                    "layer {}: the view of epoch {}, which a peer has seen, has not come in {} s",
                    layer, caller.plan().awaited_epoch(), limit_s);
}

Exchange::Exchange(std::unique_ptr<State> state) : state_(std::move(state)) {}

// Says goodbye: nobody waits for an answer that will not come.
Exchange::~Exchange() {
  State& s = *state_;
  s.is_in_step = false;
  s.own.header().window.closed.store(1, std::memory_order_release);
  s.tell(Phase::kIdle, LayerId(-1));
  for (const Peer* peer : s.membership.connected()) {
    ring_for_work(peer->header(), peer->doorbell.get());
  }
}

Result<std::unique_ptr<Exchange>> Exchange::create(const ExchangeOptions& options, int window_fd,
                                                   int doorbell_fd, ExpertSlots& slots,
                                                   Kernels& kernels, const Clock& clock) {
  Descriptor window(window_fd), doorbell(doorbell_fd);
  FASTEEP_TRY_VOID(check_options(options));
  const WindowLayout layout(options);
  const WindowIdentity identity{kLayoutVersion, options.rank, options.incarnation};
  FASTEEP_TRY(Window own, Window::open_own(std::move(window), layout.size_bytes, identity));
  return std::unique_ptr<Exchange>(new Exchange(std::make_unique<State>(
      options, layout, std::move(own), std::move(doorbell), slots, kernels, clock)));
}

size_t Exchange::window_size_bytes(const ExchangeOptions& options) {
  return WindowLayout(options).size_bytes;
}

Result<void> Exchange::connect(const PeerDescriptors& peer) {
  FASTEEP_TRY_VOID(state_->membership.connect(peer));
  // A former incarnation's calls are gone with its window; so are the answers to them.
  state_->service.forget(peer.rank);
  state_->caller.on_lost(peer.rank);
  state_->caller.on_membership();
  return {};
}

void Exchange::disconnect(RankId rank, Incarnation incarnation) {
  if (!state_->membership.disconnect(rank, incarnation)) return;
  state_->service.forget(rank);
  state_->caller.on_lost(rank);
}

void Exchange::see_view(ViewPtr view) {
  CHECK(view, "no view");
  if (!state_->membership.see(std::move(view))) return;
  state_->own.header().newest_epoch.store(newest_epoch().value, std::memory_order_release);
  state_->caller.on_membership();
}

void Exchange::adopt_newest() {
  CHECK(!state_->caller.is_active(), "a view is adopted between steps");
  state_->membership.adopt_newest();
}

Epoch Exchange::adopted_epoch() const { return state_->membership.adopted_epoch(); }
Epoch Exchange::newest_epoch() const { return state_->membership.newest_epoch(); }

void Exchange::watch_control(int fd, std::function<void()> on_readable) {
  state_->control_fd = fd;
  state_->on_control = std::move(on_readable);
}

void Exchange::begin_step() {
  state_->is_in_step = true;
  ++state_->progress.step;
  state_->tell(Phase::kStarted, LayerId(-1));
}

// The peers go on seeing the last layer: the next step may follow at once, and wait() tells
// otherwise.
void Exchange::end_step() { state_->is_in_step = false; }

Result<void> Exchange::run_layer(LayerId layer, Span2<const float> rows, Span2<const int32_t> ids,
                                 Span2<const float> weights, Span2<float> x) {
  State& s = *state_;
  CHECK(adopted_epoch().value > 0, "layer {}: no view is adopted", layer);
  CHECK(rows.rows() <= s.options.max_rows && rows.cols() == s.options.shape.hidden &&
            ids.cols() <= s.options.top_k && ids.rows() == rows.rows(),
        "layer {}: rows [{}, {}], ids [{}, {}]", layer, rows.rows(), rows.cols(), ids.rows(),
        ids.cols());
  if (s.is_stopped) return make_error(ErrorCode::kCancelled, "stop was requested");
  auto done = s.run(rows, layer, ids);
  s.caller.end();
  if (done) s.kernels.combine(weights, s.caller.results(), x);
  s.tell(Phase::kCombined, layer);
  return done;
}

bool Exchange::serve_pending() {
  state_->beat();
  return state_->serve_all();
}

void Exchange::wait(TimePoint deadline) {
  State& s = *state_;
  if (s.progress.phase != Phase::kIdle) s.tell(Phase::kIdle, LayerId(-1));
  if (serve_pending() || s.is_stopped) return;
  s.pause(Sleep::kForWork, deadline, [&] { return s.service.has_call(); });
  if (const auto layer = s.service.next_layer()) s.gather(*layer);
  s.serve_all();
}

void Exchange::request_stop() { state_->is_stopped = true; }
const ExchangeStats& Exchange::stats() const { return state_->stats; }

}  // namespace fasteep
