#pragma once
// What this machine offers to an instance: cores and memory.
#include <cstddef>
#include <vector>

#include "base/result.h"

namespace fasteep {

struct Machine {
  std::vector<int> cpus;       // one logical CPU of each core that this process may use
  size_t available_bytes = 0;  // memory that can be taken without swapping
};

// Asks hwloc and the kernel. Error kIo.
Result<Machine> read_machine();

// cpus[r]: of rank r's threads, one each; all empty when there are fewer CPUs than threads.
std::vector<std::vector<int>> assign_cpus(const std::vector<int>& cpus, int num_ranks,
                                          int threads_per_rank);

}  // namespace fasteep
