#pragma once
// Settings are written once, in the room that uses them, as a struct with
//   template <class V> void visit(V& v) { v(block_size, "block-size", "tokens per KV block",
//   Range{16, 256}); }
// The command line, --config file, --help, the start-up print and docs/settings.md are visitors.
// Supported members: bool, int, int64_t, double, std::string, std::optional of these, and enums
// given with Choices. Sizes in bytes take the constraint Bytes{} ("8GiB", "512MiB").
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace fasteep {

struct Anything {};
struct Range {
  double low = 0;
  double high = std::numeric_limits<double>::max();
};
struct Choices {
  std::vector<std::string> names;  // of a std::string setting
};
struct Bytes {};
// One setting may have aliases, e.g. --data-parallel-size also as --ep-size.
struct Aliases {
  std::vector<std::string> names;
};

}  // namespace fasteep
