#include "kernels/isa.h"

#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "kernels/packed_matrix.h"

namespace fasteep {

namespace {

// The compiler's CPU checks include the operating system's consent to wide registers.
bool is_supported(Isa isa) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx512Bf16:
      return avx512 && __builtin_cpu_supports("avx512bf16");
  }
  return false;
}

constexpr Isa kAllIsas[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

// Seconds of the best of a few runs of one panel times kRowBlock rows, all of it in cache.
double time_panel(Isa isa, DType dtype) {
  constexpr int kInputs = 256;
  const KernelTable& table = kernel_table(isa);
  const auto type = static_cast<size_t>(dtype);
  const size_t row_bytes = table.prepared_bytes[type](kInputs);
  std::vector<std::byte> rows(row_bytes * kRowBlock);
  std::vector<std::byte> panel(packed_size_bytes(dtype, kPanelWidth, kInputs));
  std::vector<float> out(size_t{kRowBlock} * kPanelWidth);
  double best = std::numeric_limits<double>::max();
  for (int repeat = 0; repeat < 8; ++repeat) {
    const TimePoint start = system_clock().now();
    for (int i = 0; i < 8; ++i)
      table.panel[type](rows.data(), row_bytes, kRowBlock, panel.data(), kInputs, out.data());
    best = std::min(best, seconds(system_clock().now() - start));
  }
  return best;
}

}  // namespace

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "?";
}

Result<Isa> parse_isa(std::string_view name) {
  for (Isa isa : kAllIsas) {
    if (name != to_string(isa)) continue;
    if (is_supported(isa)) return isa;
    return invalid_input("this CPU has no {}: choose one of its own sets, or auto", name);
  }
  return invalid_input("unknown instruction set '{}': use portable, avx2, avx512 or avx512_bf16",
                       name);
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (Isa isa : kAllIsas)
    if (is_supported(isa)) isas.push_back(isa);
  return isas;
}

Isa fastest_isa(DType dtype) {
  const std::vector<Isa> isas = supported_isas();
  Isa fastest = isas.back();
  double best = std::numeric_limits<double>::max();
  for (Isa isa : isas) {
    if (isa == Isa::kPortable && isas.size() > 1) continue;  // never the fastest, and slow to time
    const double time = time_panel(isa, dtype);
    if (time < best) best = time, fastest = isa;
  }
  return fastest;
}

const KernelTable& kernel_table(Isa isa) {
  CHECK(is_supported(isa), "this CPU has no {}", to_string(isa));
  switch (isa) {
    case Isa::kPortable:
      return kPortableTable;
    case Isa::kAvx2:
      return kAvx2Table;
    case Isa::kAvx512:
      return kAvx512Table;
    case Isa::kAvx512Bf16:
      return kAvx512Bf16Table;
  }
  return kPortableTable;
}

}  // namespace fasteep
