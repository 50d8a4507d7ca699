#include "rank/rank_process.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>

#include <csignal>
#include <deque>

#include "base/log.h"
#include "rank/control_connection.h"
#include "rank/messages.h"
#include "rank/rank_stats.h"
#include "rank/step_runner.h"

namespace fasteep {
namespace {

constexpr Duration kStatsInterval = std::chrono::milliseconds(250);
constexpr Duration kProgressInterval = std::chrono::milliseconds(100);
constexpr Duration kLongSleep = std::chrono::hours(1);
// With output that the socket would not take, an idle rank looks again so soon.
constexpr Duration kRetryWrite = std::chrono::milliseconds(1);
constexpr int kLastWordsMs = 1000;

class RankProcess {
 public:
  RankProcess(ControlConnection control, const Clock& clock)
      : control_(std::move(control)), clock_(clock) {}
  int run();

 private:
  void wait_for_control();
  void read_control();
  void handle(api::ToRank message);
  void handle_at_once(const api::ToRank& message);
  void configure(const api::Configure& message);
  void load(const api::Load& message);
  void report_ready();
  void report_progress(std::string_view phase, size_t done, size_t total);
  Result<void> connect(const api::Connect& message);
  Result<void> see_view(const api::View& message);

  void turn();
  void apply_deferred();
  void submit(const api::Submit& message);
  void adopt();
  void step(const StepPlan& plan);
  void idle();

  void send(const api::FromRank& message);
  void send_updates();
  void send_stats();
  void send_stats_if_due();
  void flush();
  void end(int status);
  void fail(const Error& error);

  struct Setup {
    RankSettings settings;
    Descriptor window, doorbell;
  };
  ControlConnection control_;
  const Clock& clock_;
  std::optional<Setup> setup_;  // between Configure and Load
  std::unique_ptr<RankCore> core_;
  std::unique_ptr<StepRunner> runner_;
  std::deque<api::ToRank> deferred_;  // until the step boundary
  api::FromRank updates_;             // kept: its memory is reused every step
  TimePoint last_stats_, last_progress_;
  Epoch reported_epoch_;
  bool stats_are_old_ = false;  // own work was done since the last ones
  uint64_t reported_calls_served_ = 0;
  bool ending_ = false;
  int exit_status_ = 0;
};

// ---- life ----

int RankProcess::run() {
  while (!core_ && !ending_) wait_for_control();
  while (!ending_) turn();
  return exit_status_;
}

void RankProcess::end(int status) {
  if (ending_) return;
  ending_ = true;
  exit_status_ = status;
  if (core_) core_->exchange().request_stop();
}

// The controller hears why, if it listens.
void RankProcess::fail(const Error& error) {
  if (ending_) return;
  log_error("{}", error.message());
  api::FromRank message;
  *message.mutable_fatal()->mutable_error() = to_message(error);
  send(message);
  for (int i = 0; i < kLastWordsMs && control_.pending_bytes() > 0; ++i) {
    pollfd entry{control_.fd(), POLLOUT, 0};
    poll(&entry, 1, 1);
    if (!control_.flush()) break;
  }
  end(1);
}

// ---- control messages ----

void RankProcess::wait_for_control() {
  pollfd entry{control_.fd(), POLLIN, 0};
  poll(&entry, 1, -1);  // the controller's end closes with the controller
  read_control();
}

// Also called from inside the exchange's waits, in the middle of a layer.
void RankProcess::read_control() {
  const Result<bool> open = control_.read();
  if (!open) return fail(open.error());
  while (!ending_) {
    auto message = control_.next<api::ToRank>();
    if (!message) return fail(message.error());
    if (!message->has_value()) break;
    handle(std::move(**message));
  }
  if (!*open) end(0);
}

void RankProcess::handle(api::ToRank message) {
  switch (message.body_case()) {
    case api::ToRank::kConfigure:
      return configure(message.configure());
    case api::ToRank::kLoad:
      return load(message.load());
    case api::ToRank::kStop:
      return end(0);
    case api::ToRank::BODY_NOT_SET:
      return fail(invalid_input("a control message of unknown kind"));
    default:
      break;
  }
  if (!core_) return fail(invalid_input("a control message before this rank was loaded"));
  handle_at_once(message);
  const auto kind = message.body_case();
  if (kind == api::ToRank::kSubmit || kind == api::ToRank::kCancel ||
      kind == api::ToRank::kGetStats) {
    deferred_.push_back(std::move(message));
  }
}

void RankProcess::handle_at_once(const api::ToRank& message) {
  Result<void> done;
  if (message.has_connect()) done = connect(message.connect());
  if (message.has_publish_view()) done = see_view(message.publish_view());
  if (message.has_disconnect()) {
    core_->exchange().disconnect(RankId(message.disconnect().rank()),
                                 Incarnation(message.disconnect().incarnation()));
  }
  if (!done) fail(done.error());
}

Result<void> RankProcess::connect(const api::Connect& message) {
  FASTEEP_TRY(Descriptor window, control_.take_descriptor());
  FASTEEP_TRY(Descriptor doorbell, control_.take_descriptor());
  return core_->exchange().connect({RankId(message.rank()), Incarnation(message.incarnation()),
                                    window.release(), doorbell.release()});
}

Result<void> RankProcess::see_view(const api::View& message) {
  auto view = to_view(message);
  if (!view) return view.error().with("view {}", message.epoch());
  core_->exchange().see_view(*view);
  return {};
}

void RankProcess::configure(const api::Configure& message) {
  if (setup_ || core_) return fail(invalid_input("configured twice"));
  auto settings = to_settings(message);
  if (!settings) return fail(settings.error());
  auto window = control_.take_descriptor();
  auto doorbell = control_.take_descriptor();
  if (!window || !doorbell) return fail(invalid_input("configured without window and doorbell"));
  setup_.emplace(Setup{std::move(*settings), std::move(*window), std::move(*doorbell)});
  const std::string name = fmt::format("rank {}", setup_->settings.rank);
  setup_logging(name, setup_->settings.log_level);
  prctl(PR_SET_NAME, name.c_str());
}

void pin_this_thread(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<size_t>(cpu), &cpus);
  if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
    log_warning("cannot pin to CPU {}: errno {}", cpu, errno);
  }
}

void RankProcess::load(const api::Load& message) {
  if (!setup_) return fail(invalid_input("told to load before being configured"));
  auto view = to_view(message.view());
  if (!view) return fail(view.error().with("view to load"));
  Setup setup = std::move(*setup_);
  setup_.reset();
  const auto progress = [this](std::string_view phase, size_t done, size_t total) {
    report_progress(phase, done, total);
  };
  auto core = RankCore::load(setup.settings, std::move(setup.window), std::move(setup.doorbell),
                             **view, clock_, progress);
  if (!core) return fail(core.error());
  core_ = std::move(*core);
  runner_ = std::make_unique<StepRunner>(*core_);
  if (!setup.settings.cpus.empty()) pin_this_thread(setup.settings.cpus.front());
  core_->exchange().watch_control(control_.fd(), [this] { read_control(); });
  report_ready();
}

void RankProcess::report_ready() {
  api::FromRank message;
  for (int i = 0; i < kNumPoolTags; ++i) {
    const auto tag = static_cast<PoolTag>(i);
    api::TagBytes* bytes = message.mutable_ready()->add_bytes_by_tag();
    bytes->set_tag(std::string(to_string(tag)));
    bytes->set_bytes(static_cast<int64_t>(core_->ledger().granted(tag)));
  }
  message.mutable_ready()->set_kv_blocks(core_->num_kv_blocks());
  message.mutable_ready()->set_slots(core_->num_slots());
  send(message);
}

void RankProcess::report_progress(std::string_view phase, size_t done, size_t total) {
  const TimePoint now = clock_.now();
  if (done < total && now - last_progress_ < kProgressInterval) return;
  last_progress_ = now;
  api::FromRank message;
  message.mutable_progress()->set_phase(std::string(phase));
  message.mutable_progress()->set_done(static_cast<int64_t>(done));
  message.mutable_progress()->set_total(static_cast<int64_t>(total));
  send(message);
}

// ---- steps ----

void RankProcess::turn() {
  read_control();
  if (ending_) return;
  apply_deferred();
  adopt();
  core_->exchange().serve_pending();
  const StepPlan plan = core_->scheduler().plan();
  if (plan.empty()) return idle();
  step(plan);
}

void RankProcess::apply_deferred() {
  while (!deferred_.empty()) {
    const api::ToRank message = std::move(deferred_.front());
    deferred_.pop_front();
    stats_are_old_ = true;
    if (message.has_submit()) submit(message.submit());
    if (message.has_cancel()) core_->scheduler().cancel(RequestId(message.cancel().id()));
    if (message.has_get_stats()) send_stats();
  }
}

void RankProcess::submit(const api::Submit& message) {
  auto request = to_sequence_request(message, core_->config().vocab_size);
  const Result<void> accepted =
      request ? core_->scheduler().submit(std::move(*request)) : Result<void>(request.error());
  if (accepted) return;
  api::Update* update = updates_.mutable_updates()->add_updates();
  update->set_id(message.id());
  *update->mutable_error() = to_message(accepted.error());
  send_updates();
}

void RankProcess::adopt() {
  core_->exchange().adopt_newest();
  const Epoch adopted = core_->exchange().adopted_epoch();
  if (adopted == reported_epoch_) return;
  reported_epoch_ = adopted;
  api::FromRank message;
  message.mutable_adopted()->set_epoch(adopted.value);
  send(message);
}

void RankProcess::step(const StepPlan& plan) {
  runner_->run(plan, *updates_.mutable_updates());
  if (ending_) return;
  stats_are_old_ = true;
  send_updates();
  send_stats_if_due();
}

void RankProcess::idle() {
  TimePoint deadline = clock_.now() + kLongSleep;
  const bool has_served = core_->exchange().stats().calls_served != reported_calls_served_;
  const TimePoint stats_due = last_stats_ + kStatsInterval;
  if (stats_are_old_ || (has_served && clock_.now() >= stats_due)) {
    send_stats();
  } else if (has_served) {
    deadline = stats_due;
  }
  if (ending_) return;
  if (control_.pending_bytes() > 0) deadline = clock_.now() + kRetryWrite;
  core_->exchange().wait(deadline);
  flush();
}

// ---- what the controller hears ----

void RankProcess::send(const api::FromRank& message) {
  const Result<void> sent = control_.send(message);
  if (!sent) {
    log_error("{}", sent.error().message());
    return end(1);
  }
  flush();
}

void RankProcess::flush() {
  const Result<bool> written = control_.flush();
  if (!written) end(0);  // the controller is gone
}

void RankProcess::send_updates() {
  api::Updates& updates = *updates_.mutable_updates();
  if (updates.updates().empty()) return;
  const SchedulerStats& stats = core_->scheduler().stats();
  updates.set_running(stats.running);
  updates.set_waiting(stats.waiting);
  send(updates_);
  updates.Clear();
}

void RankProcess::send_stats() {
  api::FromRank message;
  fill(core_->scheduler().stats(), core_->exchange().stats(), *message.mutable_stats());
  last_stats_ = clock_.now();
  stats_are_old_ = false;
  reported_calls_served_ = core_->exchange().stats().calls_served;
  send(message);
}

void RankProcess::send_stats_if_due() {
  if (clock_.now() - last_stats_ >= kStatsInterval) send_stats();
}

// A signal to the whole process group is the controller's to answer: it ends ranks by message, and
// the kernel ends them when it dies.
void leave_signals_to_the_controller() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace

int run_rank(int control_fd) {
  leave_signals_to_the_controller();
  auto control = ControlConnection::open(Descriptor(control_fd));
  if (!control) {
    log_error("--control-fd: {}", control.error().message());
    return 1;
  }
  return RankProcess(std::move(*control), system_clock()).run();
}

}  // namespace fasteep
