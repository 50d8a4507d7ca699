#pragma once
// Counter-based random numbers: the value depends on (seed, stream, counter) and on nothing else,
// so that sampling has no state to lose in a migration.
// Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), Philox4x32-10.
#include <array>
#include <cstdint>

namespace fasteep {

// Four 32-bit words for a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A uniform double in [0, 1) with 53 random bits, for draw number `counter` of `stream` under
// `seed`.
double counter_uniform(uint64_t seed, uint64_t stream, uint64_t counter);

// A sequential generator over the same function, for tests and synthetic data. One thread.
class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  uint64_t next_u64();
  double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }  // [0, 1)
  double normal();                 // mean 0, variance 1
  uint64_t below(uint64_t bound);  // [0, bound), bound > 0

 private:
  uint64_t seed_, stream_, counter_ = 0;
};

// A seed nobody chose, from the operating system.
uint64_t fresh_seed();

}  // namespace fasteep
