#include "model/tensor_reader.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace fasteep {

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu, mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

TypedRows TensorReader::read(const TensorView& tensor, int64_t first_row, int64_t num_rows,
                             int64_t cols) {
  CHECK(tensor.type != StoredType::kOther, "{} has dtype {}", tensor.name, tensor.type_name);
  const size_t item = tensor.type == StoredType::kF32 ? 4 : 2;
  const size_t count = static_cast<size_t>(num_rows) * cols;
  const std::span<const std::byte> bytes =
      tensor.bytes.subspan(static_cast<size_t>(first_row) * cols * item, count * item);
  const DType dtype = tensor.type == StoredType::kBF16 ? DType::kBFloat16 : DType::kFloat32;
  if (tensor.type == StoredType::kF16) {
    buffer_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      uint16_t half;
      std::memcpy(&half, bytes.data() + 2 * i, 2);
      buffer_[i] = half_to_float(half);
    }
    return {dtype, reinterpret_cast<const std::byte*>(buffer_.data())};
  }
  if (reinterpret_cast<uintptr_t>(bytes.data()) % item == 0) return {dtype, bytes.data()};
  buffer_.resize((bytes.size() + 3) / 4);
  std::memcpy(buffer_.data(), bytes.data(), bytes.size());
  return {dtype, reinterpret_cast<const std::byte*>(buffer_.data())};
}

TypedRows TensorReader::read(const TensorView& tensor) {
  const int64_t cols = tensor.shape.back();
  return read(tensor, 0, tensor.shape.size() > 1 ? tensor.shape[0] : 1, cols);
}

void convert(TypedRows source, size_t count, DType dtype, std::byte* destination) {
  if (source.dtype == dtype) {
    std::memcpy(destination, source.data, count * size_bytes(dtype));
    return;
  }
  if (dtype == DType::kFloat32) {
    const auto* in = reinterpret_cast<const BFloat16*>(source.data);
    auto* out = reinterpret_cast<float*>(destination);
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(in[i]);
    return;
  }
  const auto* in = reinterpret_cast<const float*>(source.data);
  auto* out = reinterpret_cast<BFloat16*>(destination);
  for (size_t i = 0; i < count; ++i) out[i] = BFloat16(in[i]);
}

}  // namespace fasteep
