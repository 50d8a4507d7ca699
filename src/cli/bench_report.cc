#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace fasteep {
namespace {

bool near(double a, double b) { return std::abs(a - b) <= std::max(a, b) / 6; }

std::string probe_text(const MachineProbe& probe) {
  return fmt::format("read {:.1f} GB/s, {:.0f} GFLOP/s, ping-pong {:.0f} ns (placement {})",
                     probe.read_bytes_per_s / 1e9, probe.flops_per_s / 1e9, probe.ping_pong_ns,
                     placement_class(probe));
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double Figure::share() const { return bound > 0 ? median(values) / bound : 0; }

bool agree(const MachineProbe& a, const MachineProbe& b) {
  return near(a.read_bytes_per_s, b.read_bytes_per_s) && near(a.flops_per_s, b.flops_per_s);
}

char placement_class(const MachineProbe& probe) {
  if (probe.ping_pong_ns < 140) return 'C';
  return probe.ping_pong_ns < 400 ? 'A' : 'B';
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

std::string BenchReport::table() const {
  std::string out = fmt::format("machine: {}\nmodel:   {}\nflags:   {}\n", machine, model, flags);
  for (const MachineProbe& probe : probes) out += "probe:   " + probe_text(probe) + "\n";
  if (rounds_dropped > 0) {
    out += fmt::format("dropped: {} rounds, because the probes before and after disagreed\n",
                       rounds_dropped);
  }
  for (const Figure& figure : figures) {
    if (figure.values.empty()) {
      out += fmt::format("{:44} no round was kept: the machine changed under each\n", figure.what);
      continue;
    }
    const auto [low, high] = std::minmax_element(figure.values.begin(), figure.values.end());
    out += fmt::format("{:44} {:9.2f} {} ({:.2f} to {:.2f})", figure.what, median(figure.values),
                       figure.unit, *low, *high);
    if (figure.bound > 0)
      out +=
          fmt::format("  {:.2f} of {:.1f} ({})", figure.share(), figure.bound, figure.bound_text);
    out += "\n";
  }
  return out;
}

std::string BenchReport::json() const {
  nlohmann::ordered_json out = {
      {"machine", machine}, {"model", model}, {"flags", flags}, {"rounds_dropped", rounds_dropped}};
  for (const MachineProbe& probe : probes) {
    out["probes"].push_back({{"read_bytes_per_s", probe.read_bytes_per_s},
                             {"copy_bytes_per_s", probe.copy_bytes_per_s},
                             {"flops_per_s", probe.flops_per_s},
                             {"ping_pong_ns", probe.ping_pong_ns},
                             {"placement", std::string(1, placement_class(probe))}});
  }
  for (const Figure& figure : figures) {
    out["figures"].push_back({{"what", figure.what},
                              {"unit", figure.unit},
                              {"values", figure.values},
                              {"median", median(figure.values)},
                              {"bound", figure.bound},
                              {"bound_is", figure.bound_text},
                              {"share", figure.share()}});
  }
  return out.dump(2) + "\n";
}

}  // namespace fasteep
