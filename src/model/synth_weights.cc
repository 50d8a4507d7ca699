#include "model/synth_weights.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace fasteep {
namespace {

// The sum of four uniform bytes is near enough to a normal value, and costs one word of random bits
// and a look-up. Its mean is 510 and its variance 4 * (256^2 - 1) / 12.
constexpr int kSums = 4 * 255 + 1;
constexpr double kSumMean = 510, kSumDeviation = 147.80054;

std::array<BFloat16, kSums> value_of_sum(WeightScale scale) {
  std::array<BFloat16, kSums> values;
  for (int sum = 0; sum < kSums; ++sum)
    values[sum] = BFloat16(scale.mean +
                           scale.deviation * static_cast<float>((sum - kSumMean) / kSumDeviation));
  return values;
}

int byte_sum(uint32_t word) {
  const uint32_t pairs = (word & 0x00ff00ffu) + ((word >> 8) & 0x00ff00ffu);
  return static_cast<int>((pairs + (pairs >> 16)) & 0xffffu);
}

}  // namespace

WeightScale synth_scale(const ExpectedTensor& tensor) {
  const float unit = 1.0f / std::sqrt(static_cast<float>(tensor.shape.back()));
  switch (tensor.role) {
    case WeightRole::kInputNorm:
    case WeightRole::kPostNorm:
    case WeightRole::kFinalNorm:
    case WeightRole::kQNorm:
    case WeightRole::kKNorm:
      return {1.0f, 0.1f};
    case WeightRole::kQBias:
    case WeightRole::kKBias:
    case WeightRole::kVBias:
    case WeightRole::kOBias:
      return {0.0f, 0.1f};
    case WeightRole::kEmbedding:
      return {0.0f, 0.5f};  // less than the layers add, so that context matters
    case WeightRole::kExpertDown:
    case WeightRole::kFusedDown:
    case WeightRole::kDenseDown:
      return {0.0f, 2 * unit};  // SwiGLU and the mean over experts shrink their input
    case WeightRole::kLmHead:
      return {0.0f, 4 * unit};
    default:
      return {0.0f, unit};
  }
}

void synth_values(uint64_t seed, uint64_t stream, uint64_t first, WeightScale scale,
                  std::span<BFloat16> out) {
  CHECK(first % 4 == 0, "values from {}", first);
  const std::array<BFloat16, kSums> values = value_of_sum(scale);
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed),
                                       static_cast<uint32_t>(seed >> 32)};
  for (size_t i = 0; i < out.size(); i += 4) {
    const uint64_t counter = (first + i) / 4;
    const auto words =
        philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                    static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                   key);
    for (size_t j = 0; j < 4 && i + j < out.size(); ++j) out[i + j] = values[byte_sum(words[j])];
  }
}

}  // namespace fasteep
