#include <charconv>
#include <cstdio>
#include <cstring>

#include "cli/commands.h"
#include "rank/rank_process.h"

namespace fasteep {

int run_rank_command(const char* flag, const char* control_fd) {
  int fd = -1;
  const char* end = control_fd + std::strlen(control_fd);
  const auto [rest, status] = std::from_chars(control_fd, end, fd);
  if (std::strcmp(flag, "--control-fd") != 0 || status != std::errc() || rest != end || fd < 0) {
    fmt::print(stderr, "fasteep: `fasteep rank` is started by `fasteep serve`, not by hand\n");
    return 2;
  }
  return run_rank(fd);
}

}  // namespace fasteep
