#include "engine/rank_group.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>

#include "base/log.h"
#include "engine/surviving_view.h"
#include "rank/messages.h"
#include "transport/doorbell.h"
#include "transport/window.h"

namespace fasteep {
namespace {

constexpr auto kStopDeadline = std::chrono::seconds(5);

constexpr char kStarting[] = "starting";
constexpr char kLoaded[] = "loaded";
constexpr char kActive[] = "active";
constexpr char kDead[] = "dead";

// Every pair of ranks is introduced by two descriptors each way, and those on their way count
// against the limit: with a hundred ranks the usual 1,024 are too few.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Result<Descriptor> owned(Result<int> fd) {
  if (!fd) return fd.error();
  return Descriptor(*fd);
}

Result<Descriptor> duplicate(const Descriptor& descriptor) {
  const int fd = fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return io_error("duplicate a descriptor", errno);
  return Descriptor(fd);
}

}  // namespace

RankGroup::RankGroup(boost::asio::io_context& loop, InstancePlan plan, std::string program,
                     const Clock& clock, Events events)
    : loop_(loop),
      plan_(std::move(plan)),
      clock_(clock),
      events_(std::move(events)),
      view_(plan_.first_view),
      stop_deadline_(loop),
      supervisor_(loop, std::move(program),
                  {[this](RankId rank, const api::FromRank& message) { on_message(rank, message); },
                   [this](RankId rank) { on_unreachable(rank); },
                   [this](RankId rank, const std::string& reason) { on_gone(rank, reason); }}) {
  for (const RankSettings& settings : plan_.ranks) {
    RankStatus& status = statuses_[settings.rank];
    status.rank = settings.rank;
    status.incarnation = settings.incarnation;
    status.state = kStarting;
  }
}

void RankGroup::later(std::function<void()> function) {
  boost::asio::post(loop_, [alive = std::weak_ptr(alive_), function = std::move(function)] {
    if (!alive.expired()) function();
  });
}

// ---- start: load, introduce, publish ----

void RankGroup::start() {
  CHECK(phase_ == Phase::kIdle, "started twice");
  phase_ = Phase::kLoading;
  started_ = clock_.now();
  raise_descriptor_limit();
  for (const RankSettings& settings : plan_.ranks) {
    const Result<void> launched = launch(settings);
    if (!launched) return fail_start(launched.error().with("rank {}", settings.rank));
  }
}

Result<void> RankGroup::launch(const RankSettings& settings) {
  FASTEEP_TRY(Descriptor window, owned(create_window_fd(plan_.window_bytes)));
  FASTEEP_TRY(Descriptor read_only, owned(reopen_read_only(window.get())));
  FASTEEP_TRY(Descriptor doorbell, owned(create_doorbell()));
  FASTEEP_TRY(Descriptor own_doorbell, duplicate(doorbell));
  introductions_[settings.rank] = {std::move(read_only), std::move(doorbell)};
  FASTEEP_TRY_VOID(supervisor_.launch({settings.rank, settings.incarnation}));
  statuses_.at(settings.rank).pid = supervisor_.pid(settings.rank);
  std::vector<Descriptor> descriptors;
  descriptors.push_back(std::move(window));
  descriptors.push_back(std::move(own_doorbell));
  api::ToRank configure;
  *configure.mutable_configure() = to_message(settings);
  supervisor_.send(settings.rank, configure, std::move(descriptors));
  api::ToRank load;
  *load.mutable_load()->mutable_view() = to_message(*view_);
  supervisor_.send(settings.rank, load);
  return {};
}

void RankGroup::fail_start(const Error& error) {
  phase_ = Phase::kFailed;
  for (const RankSettings& settings : plan_.ranks) supervisor_.kill(settings.rank);
  later([this, error] { events_.on_started(error); });
}

void RankGroup::on_message(RankId rank, const api::FromRank& message) {
  switch (message.body_case()) {
    case api::FromRank::kProgress:
      return events_.on_progress({message.progress().phase(), rank, message.progress().done(),
                                  message.progress().total(), seconds(clock_.now() - started_)});
    case api::FromRank::kReady:
      return on_ready(rank, message.ready());
    case api::FromRank::kAdopted:
      return on_adopted(rank, Epoch(message.adopted().epoch()));
    case api::FromRank::kUpdates:
      return events_.on_updates(rank, message.updates());
    case api::FromRank::kStats:
      return events_.on_stats(rank, message.stats());
    default:
      return declare_broken(rank, invalid_input("it sent a message of unknown kind"));
  }
}

bool RankGroup::all_ranks_are(const char* state) const {
  return std::ranges::all_of(statuses_, [&](const auto& s) { return s.second.state == state; });
}

void RankGroup::on_ready(RankId rank, const api::Ready& ready) {
  RankStatus& status = statuses_.at(rank);
  if (status.state != kStarting) return;
  status.state = kLoaded;
  status.slots = ready.slots();
  status.kv_tokens = int64_t{ready.kv_blocks()} * plan_.ranks.front().scheduler.block_tokens;
  for (const api::TagBytes& bytes : ready.bytes_by_tag()) {
    status.bytes_by_tag.emplace_back(bytes.tag(), bytes.bytes());
  }
  events_.on_progress({"ready", rank, 1, 1, seconds(clock_.now() - started_)});
  if (phase_ == Phase::kLoading && all_ranks_are(kLoaded)) introduce_all();
}

// Each rank reads its introductions before the view, so that it can serve whom the view names.
void RankGroup::introduce_all() {
  phase_ = Phase::kIntroducing;
  for (const auto& [rank, status] : statuses_) {
    for (const auto& [peer, peer_status] : statuses_) {
      if (peer != rank) introduce(rank, peer);
    }
  }
  publish();
}

void RankGroup::introduce(RankId rank, RankId peer) {
  const Introduction& introduction = introductions_.at(peer);
  auto window = duplicate(introduction.window);
  auto doorbell = duplicate(introduction.doorbell);
  if (!window || !doorbell) {
    return declare_broken(rank, (window ? doorbell : window).error().with("introduce it"));
  }
  api::ToRank message;
  message.mutable_connect()->set_rank(peer.value);
  message.mutable_connect()->set_incarnation(statuses_.at(peer).incarnation.value);
  std::vector<Descriptor> descriptors;
  descriptors.push_back(std::move(*window));
  descriptors.push_back(std::move(*doorbell));
  supervisor_.send(rank, message, std::move(descriptors));
}

void RankGroup::publish() {
  api::ToRank message;
  *message.mutable_publish_view() = to_message(*view_);
  for (const Member& member : view_->members()) supervisor_.send(member.rank, message);
}

void RankGroup::on_adopted(RankId rank, Epoch epoch) {
  RankStatus& status = statuses_.at(rank);
  status.adopted_epoch = epoch;
  if (status.state == kLoaded) status.state = kActive;
  if (phase_ != Phase::kIntroducing || !all_ranks_are(kActive)) return;
  phase_ = Phase::kServing;
  events_.on_started({});
}

// ---- losses ----

void RankGroup::disconnect(RankId rank) {
  api::ToRank message;
  message.mutable_disconnect()->set_rank(rank.value);
  message.mutable_disconnect()->set_incarnation(statuses_.at(rank).incarnation.value);
  for (const auto& [other, status] : statuses_) {
    if (other != rank && status.state != kDead) supervisor_.send(other, message);
  }
}

// Others go on at once where they have replicas; the view says so from the next step on.
void RankGroup::leave_view(RankId rank) {
  const std::string only_there = experts_only_on(*view_, rank);
  if (only_there.empty() && view_->members().size() > 1) {
    auto rest = without_rank(*view_, rank, Epoch(view_->epoch().value + 1));
    CHECK(rest.has_value(), "{}", rest.error().message());
    view_ = std::make_shared<const View>(std::move(*rest));
    return publish();
  }
  if (lost_experts_.empty()) lost_experts_ = only_there;
}

void RankGroup::on_unreachable(RankId rank) {
  if (phase_ == Phase::kStopping || phase_ == Phase::kFailed) return;
  statuses_.at(rank).state = kDead;
  introductions_.erase(rank);
  if (phase_ != Phase::kServing) return;  // on_gone() says why and fails the start
  ++num_lost_;
  disconnect(rank);
  if (lost_experts_.empty()) leave_view(rank);
  events_.on_unreachable(rank);
}

void RankGroup::on_gone(RankId rank, const std::string& reason) {
  const bool is_expected = reason.empty();
  if (!is_expected) {
    const Error error = make_error(ErrorCode::kPeerLost, "rank {} {}", rank, reason);
    log_error("{}", error.message());
    if (phase_ == Phase::kLoading || phase_ == Phase::kIntroducing) {
      fail_start(Error(ErrorCode::kUnavailable, error.message()));
    } else if (phase_ == Phase::kServing) {
      if (lost_how_.empty() && has_lost_experts()) lost_how_ = error.message();
      events_.on_lost(rank, error);
    }
  }
  statuses_.at(rank).state = kDead;
  if (supervisor_.num_processes() > 0) return;
  stop_deadline_.cancel();
  events_.on_all_gone();
}

std::string RankGroup::not_ready_reason() const {
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kLoading:
    case Phase::kIntroducing:
      return "the ranks are starting";
    case Phase::kFailed:
      return "the ranks did not start";
    case Phase::kStopping:
      return "the instance is ending";
    case Phase::kServing:
      break;
  }
  if (lost_experts_.empty()) return "";
  return fmt::format("{}; {} have no live replica",
                     lost_how_.empty() ? "a rank is lost" : lost_how_, lost_experts_);
}

// ---- end ----

void RankGroup::stop() {
  if (phase_ == Phase::kStopping) return;
  const bool was_serving = phase_ == Phase::kServing;
  phase_ = Phase::kStopping;
  if (supervisor_.num_processes() == 0) {
    return later([this] { events_.on_all_gone(); });
  }
  for (const auto& [rank, status] : statuses_) {
    // One that is loading reads no message, and has nothing to lose.
    was_serving ? supervisor_.stop(rank) : supervisor_.kill(rank);
  }
  stop_deadline_.expires_after(kStopDeadline);
  stop_deadline_.async_wait([this, alive = std::weak_ptr(alive_)](const auto& failed) {
    if (failed || alive.expired()) return;
    for (const auto& [rank, status] : statuses_) supervisor_.kill(rank);
  });
}

void RankGroup::ask_for_stats() {
  api::ToRank message;
  message.mutable_get_stats();
  for (const RankId rank : active_ranks()) supervisor_.send(rank, message);
}

std::vector<RankId> RankGroup::active_ranks() const {
  std::vector<RankId> ranks;
  for (const auto& [rank, status] : statuses_) {
    if (status.state == kActive) ranks.push_back(rank);
  }
  return ranks;
}

int64_t RankGroup::kv_tokens(RankId rank) const { return statuses_.at(rank).kv_tokens; }

}  // namespace fasteep
