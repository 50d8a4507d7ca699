#pragma once
// Element types of weights, activations on the wire, and KV.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fasteep {

enum class DType : uint8_t { kFloat32, kBFloat16 };

constexpr size_t size_bytes(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }
constexpr std::string_view to_string(DType dtype) {
  return dtype == DType::kFloat32 ? "float32" : "bfloat16";
}

// bfloat16 as its 16 bits. Conversion from float rounds to nearest even; NaN stays NaN.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = is_nan ? static_cast<uint16_t>((u >> 16) | 0x40u)
                  : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  bool operator==(const BFloat16&) const = default;
};

inline float round_to_bf16(float value) { return static_cast<float>(BFloat16(value)); }

}  // namespace fasteep
