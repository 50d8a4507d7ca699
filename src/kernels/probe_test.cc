#include "kernels/probe.h"

#include <gtest/gtest.h>

namespace fasteep {
namespace {

TEST(Probe, EveryFigureIsMeasured) {
  const MachineProbe probe = probe_machine(1, DType::kBFloat16, fastest_isa(DType::kBFloat16));
  EXPECT_GT(probe.read_bytes_per_s, 0);
  EXPECT_GT(probe.copy_bytes_per_s, 0);
  EXPECT_GT(probe.flops_per_s, 0);
}

}  // namespace
}  // namespace fasteep
