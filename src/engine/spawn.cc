#include "engine/spawn.h"

#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "rank/control_connection.h"

namespace fasteep {
namespace {

constexpr int kControlFd = 3;

class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

class SpawnAttributes {
 public:
  SpawnAttributes() { posix_spawnattr_init(&attributes_); }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  posix_spawnattr_t* get() { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// A rank starts with no signal blocked, whatever the controller's thread blocks.
void unblock_signals(SpawnAttributes& attributes) {
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(attributes.get(), &none);
  posix_spawnattr_setflags(attributes.get(), POSIX_SPAWN_SETSIGMASK);
}

Result<int> spawn(const std::string& program, int control_fd) {
  SpawnActions actions;
  posix_spawn_file_actions_adddup2(actions.get(), control_fd, kControlFd);
  posix_spawn_file_actions_addclosefrom_np(actions.get(), kControlFd + 1);
  SpawnAttributes attributes;
  unblock_signals(attributes);
  std::string name = "fasteep", command = "rank", flag = "--control-fd";
  std::string fd = std::to_string(kControlFd);
  const std::array<char*, 5> arguments{name.data(), command.data(), flag.data(), fd.data(),
                                       nullptr};
  int pid = 0;
  const int failed = posix_spawn(&pid, program.c_str(), actions.get(), attributes.get(),
                                 arguments.data(), environ);
  if (failed != 0) return io_error("start " + program, failed);
  return pid;
}

}  // namespace

Result<SpawnedRank> spawn_rank(const std::string& program) {
  FASTEEP_TRY(auto ends, create_control_pair());
  FASTEEP_TRY(const int pid, spawn(program, ends.second.get()));
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const int reason = errno;
    ::kill(pid, SIGKILL);
    reap(pid, true);
    return io_error("pidfd_open", reason);
  }
  return SpawnedRank{pid, Descriptor(pidfd), std::move(ends.first)};
}

std::string reap(int pid, bool block) {
  int status = 0;
  int got = 0;
  do {
    got = waitpid(pid, &status, block ? 0 : WNOHANG);
  } while (got < 0 && errno == EINTR);
  if (got != pid) return "";
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

}  // namespace fasteep
