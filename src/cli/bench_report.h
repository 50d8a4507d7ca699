#pragma once
// Figures of a benchmark, each with its bound and the machine's state around it.
#include <functional>
#include <string>
#include <vector>

#include "kernels/probe.h"

namespace fasteep {

struct Figure {
  std::string what;            // "decode, 1 sequence, EP 1 x 2 threads"
  std::string unit;            // "tokens/s"
  std::vector<double> values;  // of each round kept
  double bound = 0;            // same unit, median over rounds; 0: none
  std::string bound_text;
  double share() const;  // median value / bound
};

double median(std::vector<double> values);

struct BenchReport {
  std::string machine, model, flags;
  std::vector<MachineProbe> probes;
  int rounds_dropped = 0;  // because the probes around them disagreed
  std::vector<Figure> figures;

  std::string table() const;  // for people
  std::string json() const;   // for --report
};

// Whether two probes saw the same machine: read bandwidth and compute within a sixth.
bool agree(const MachineProbe& a, const MachineProbe& b);

// A: cores behind one L3, B: different ones, C: siblings or a busy neighbour; by the ping-pong
// time.
char placement_class(const MachineProbe& probe);

std::string cpu_name();  // of /proc/cpuinfo

}  // namespace fasteep
