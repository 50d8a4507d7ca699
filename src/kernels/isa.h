#pragma once
// Which instruction set the kernels use. One choice for a whole instance: ranks that differ would
// differ in bits (kAvx512Bf16 rounds differently; the others give equal bits by construction).
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace fasteep {

enum class Isa {
  kPortable,    // plain C++ with fused multiply-add
  kAvx2,        // 8 lanes; bfloat16 weights are widened to float32
  kAvx512,      // 16 lanes; bfloat16 weights are widened to float32
  kAvx512Bf16,  // bfloat16 pairs by vdpbf16ps; float32 models as kAvx512
};  // AMX takes its place here: a new Isa, its own tile kernels, the same packing contract

std::string_view to_string(Isa isa);
Result<Isa> parse_isa(std::string_view name);
std::vector<Isa> supported_isas();  // on this CPU, plainest first

// Times a short GEMM from cache on each supported set (a few ms in all) and returns the fastest:
// not always the newest, since some CPUs run vdpbf16ps at half the float32 rate.
Isa fastest_isa(DType dtype);

}  // namespace fasteep
