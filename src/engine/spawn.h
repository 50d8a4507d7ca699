#pragma once
// Starting a rank's process.
#include <string>

#include "base/result.h"
#include "transport/descriptor.h"

namespace fasteep {

struct SpawnedRank {
  int pid = 0;
  Descriptor pidfd;    // readable when it has ended
  Descriptor control;  // the controller's end
};

// Runs `program rank --control-fd 3` with standard streams and its control socket, nothing else.
Result<SpawnedRank> spawn_rank(const std::string& program);

// Waits for the end of a child. block: until then; otherwise nothing if it still runs.
// "signal 9", "exit status 1".
std::string reap(int pid, bool block);

}  // namespace fasteep
