#include "base/rng.h"

#include <cmath>
#include <numbers>
#include <random>

#include "base/check.h"

namespace fasteep {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

namespace {
uint64_t counter_u64(uint64_t seed, uint64_t stream, uint64_t counter) {
  const auto words =
      philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                  static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return (uint64_t{words[1]} << 32) | words[0];
}
}  // namespace

double counter_uniform(uint64_t seed, uint64_t stream, uint64_t counter) {
  return static_cast<double>(counter_u64(seed, stream, counter) >> 11) * 0x1p-53;
}

uint64_t Rng::next_u64() { return counter_u64(seed_, stream_, counter_++); }

double Rng::normal() {
  const double u = 1.0 - uniform();  // (0, 1]: its logarithm is finite
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * uniform());
}

uint64_t Rng::below(uint64_t bound) {
  CHECK(bound > 0, "Rng::below(0)");
  return static_cast<uint64_t>((static_cast<unsigned __int128>(next_u64()) * bound) >> 64);
}

uint64_t fresh_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace fasteep
