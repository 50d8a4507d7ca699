#include "engine/machine.h"

#include <hwloc.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

namespace fasteep {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

Result<Topology> load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return make_error(ErrorCode::kIo, "hwloc does not start");
  Topology topology(raw);
  if (hwloc_topology_load(raw) != 0) {
    return make_error(ErrorCode::kIo, "hwloc cannot read this machine's cores");
  }
  return topology;
}

// In the machine's order, so that neighbours share caches. Hyper-threads of one core count once.
std::vector<int> usable_cpus(hwloc_topology_t topology) {
  Bitmap allowed(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology, allowed.get(), HWLOC_CPUBIND_PROCESS) != 0) {
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology));
  }
  std::vector<int> cpus;
  const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  for (int i = 0; i < cores; ++i) {
    const hwloc_obj_t core =
        hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, static_cast<unsigned>(i));
    Bitmap here(hwloc_bitmap_alloc());
    hwloc_bitmap_and(here.get(), core->cpuset, allowed.get());
    const int first = hwloc_bitmap_first(here.get());
    if (first >= 0) cpus.push_back(first);
  }
  if (cpus.empty()) cpus.push_back(std::max(0, hwloc_bitmap_first(allowed.get())));
  return cpus;
}

std::optional<size_t> read_number(const std::string& path) {
  std::ifstream file(path);
  size_t value = 0;
  if (file >> value) return value;  // "max" is no number: no limit
  return std::nullopt;
}

Result<size_t> available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  size_t kib = 0;
  while (file >> name >> kib) {
    if (name == "MemAvailable:") return kib << 10;
    std::getline(file, unit);
  }
  return make_error(ErrorCode::kIo, "/proc/meminfo has no MemAvailable");
}

// What the container's limit leaves. Its own page cache is counted as used: a careful guess.
size_t within_cgroup(size_t available) {
  const auto limit = read_number("/sys/fs/cgroup/memory.max");
  const auto used = read_number("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return available;
  return std::min(available, *limit > *used ? *limit - *used : 0);
}

}  // namespace

Result<Machine> read_machine() {
  FASTEEP_TRY(const Topology topology, load_topology());
  FASTEEP_TRY(const size_t available, available_memory());
  return Machine{usable_cpus(topology.get()), within_cgroup(available)};
}

std::vector<std::vector<int>> assign_cpus(const std::vector<int>& cpus, int num_ranks,
                                          int threads_per_rank) {
  const auto ranks = static_cast<size_t>(num_ranks),
             threads = static_cast<size_t>(threads_per_rank);
  std::vector<std::vector<int>> assigned(ranks);
  if (cpus.size() < ranks * threads) return assigned;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto first = cpus.begin() + static_cast<std::ptrdiff_t>(rank * threads);
    assigned[rank].assign(first, first + threads_per_rank);
  }
  return assigned;
}

}  // namespace fasteep
