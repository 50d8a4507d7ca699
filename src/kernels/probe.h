#pragma once
// What this machine can do right now, for benchmarks that state a share of the bound.
#include <cstdint>

#include "base/dtype.h"
#include "kernels/isa.h"

namespace fasteep {

struct MachineProbe {
  double read_bytes_per_s = 0;  // `threads` long sequential streams over >= 512 MiB in huge pages
  double copy_bytes_per_s = 0;
  double flops_per_s = 0;   // multiply-adds from registers count two, best Isa for dtype
  double ping_pong_ns = 0;  // cache line there and back between two threads; 0 with one core
};

// Takes about a second. Any thread; uses `threads` threads of its own.
MachineProbe probe_machine(int threads, DType dtype, Isa isa);

}  // namespace fasteep
