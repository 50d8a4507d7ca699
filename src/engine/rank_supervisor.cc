#include "engine/rank_supervisor.h"

#include <csignal>

#include "base/log.h"
#include "engine/spawn.h"

namespace fasteep {
namespace {

using boost::asio::posix::stream_descriptor;

// A killed process ends within milliseconds per GiB it holds. One that does not is stuck in the
// kernel; nobody waits for it any longer.
constexpr auto kReapDeadline = std::chrono::seconds(10);

}  // namespace

struct RankSupervisor::Process {
  Process(boost::asio::io_context& loop, const Member& member, SpawnedRank spawned)
      : member(member),
        pid(spawned.pid),
        exit_watch(loop, spawned.pidfd.release()),
        deadline(loop) {}

  Member member;
  int pid;
  stream_descriptor exit_watch;        // of the pidfd
  boost::asio::steady_timer deadline;  // after it became unreachable
  std::shared_ptr<RankLink> link;      // shared with its own pending handlers
  std::string last_words;              // its Fatal message, or what was wrong with its messages
  bool is_expected = false;            // its end
  bool is_unreachable = false;
};

RankSupervisor::RankSupervisor(boost::asio::io_context& loop, std::string program, Events events)
    : loop_(loop), program_(std::move(program)), events_(std::move(events)) {}

RankSupervisor::~RankSupervisor() {
  for (auto& [rank, process] : processes_) {
    ::kill(process->pid, SIGKILL);
    process->link->close();
  }
  for (auto& [rank, process] : processes_) {
    process->exit_watch.close();
    process->deadline.cancel();
    reap(process->pid, true);
  }
}

RankSupervisor::Process* RankSupervisor::find(RankId rank) const {
  const auto found = processes_.find(rank);
  return found == processes_.end() ? nullptr : found->second.get();
}

int RankSupervisor::pid(RankId rank) const {
  const Process* process = find(rank);
  return process ? process->pid : 0;
}

std::string RankSupervisor::last_words(RankId rank) const {
  const Process* process = find(rank);
  return process ? process->last_words : "";
}

Result<void> RankSupervisor::launch(const Member& member) {
  CHECK(!find(member.rank), "rank {} runs already", member.rank);
  FASTEEP_TRY(SpawnedRank spawned, spawn_rank(program_));
  Descriptor control = std::move(spawned.control);
  auto process = std::make_shared<Process>(loop_, member, std::move(spawned));
  RankLink::Events events;
  events.on_message = [this, raw = process.get()](const api::FromRank& message) {
    on_message(*raw, message);
  };
  events.on_closed = [this, raw = process.get()](const Error& error) { on_closed(*raw, error); };
  auto link = RankLink::open(loop_, std::move(control), std::move(events));
  if (!link) {
    ::kill(process->pid, SIGKILL);
    reap(process->pid, true);
    return link.error();
  }
  process->link = std::move(*link);
  processes_[member.rank] = process;
  watch(process);
  return {};
}

void RankSupervisor::watch(const std::shared_ptr<Process>& process) {
  process->exit_watch.async_wait(stream_descriptor::wait_read,
                                 [this, process](const boost::system::error_code& failed) {
                                   if (!failed && process->exit_watch.is_open()) on_exit(*process);
                                 });
}

void RankSupervisor::on_message(Process& process, const api::FromRank& message) {
  if (process.is_unreachable) return;
  if (message.has_fatal()) {
    process.last_words = message.fatal().error().message();
    return;  // its end follows
  }
  events_.on_message(process.member.rank, message);
}

void RankSupervisor::on_closed(Process& process, const Error& error) {
  if (process.is_unreachable) return;
  if (!process.is_expected && error.code() != ErrorCode::kPeerLost && process.last_words.empty()) {
    process.last_words = error.message();
  }
  // One that was told to stop has said all it had to say, and may take a while to end.
  if (process.is_expected) return;
  make_unreachable(process);
}

// Fenced first: nobody may hear from it any more once others are told that it is dead.
void RankSupervisor::make_unreachable(Process& process) {
  process.is_unreachable = true;
  ::kill(process.pid, SIGKILL);
  process.link->close();
  const std::shared_ptr<Process> self = processes_.at(process.member.rank);
  process.deadline.expires_after(kReapDeadline);
  process.deadline.async_wait([this, self](const boost::system::error_code& failed) {
    if (!failed && self->exit_watch.is_open()) give_up_waiting(self);
  });
  if (!process.is_expected) events_.on_unreachable(process.member.rank);
}

void RankSupervisor::give_up_waiting(const std::shared_ptr<Process>& process) {
  log_error("rank {} (pid {}) does not end after SIGKILL", process->member.rank, process->pid);
  process->exit_watch.close();
  processes_.erase(process->member.rank);
  events_.on_gone(process->member.rank, process->is_expected ? "" : "hangs in the kernel");
}

void RankSupervisor::on_exit(Process& process) {
  const std::string status = reap(process.pid, false);
  if (status.empty()) return watch(processes_.at(process.member.rank));
  const std::shared_ptr<Process> self = processes_.at(process.member.rank);
  process.link->drain();  // what it said before it ended
  if (!process.is_expected && !process.is_unreachable) make_unreachable(process);
  process.exit_watch.close();
  process.deadline.cancel();
  process.link->close();
  processes_.erase(process.member.rank);
  std::string reason;
  if (!process.is_expected) {
    reason = process.last_words.empty() ? fmt::format("died ({})", status)
                                        : fmt::format("failed: {}", process.last_words);
  }
  events_.on_gone(process.member.rank, reason);
}

void RankSupervisor::send(RankId rank, const api::ToRank& message,
                          std::vector<Descriptor> descriptors) {
  Process* process = find(rank);
  if (process && !process->is_unreachable) process->link->send(message, std::move(descriptors));
}

void RankSupervisor::stop(RankId rank) {
  Process* process = find(rank);
  if (!process) return;
  process->is_expected = true;
  api::ToRank message;
  message.mutable_stop();
  send(rank, message);
}

void RankSupervisor::kill(RankId rank) {
  Process* process = find(rank);
  if (!process) return;
  process->is_expected = true;
  if (!process->is_unreachable) make_unreachable(*process);
}

void RankSupervisor::declare_broken(RankId rank, const Error& error) {
  Process* process = find(rank);
  if (!process || process->is_unreachable) return;
  process->last_words = error.message();
  make_unreachable(*process);
}

}  // namespace fasteep
