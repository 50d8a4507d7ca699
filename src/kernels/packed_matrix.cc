#include "kernels/packed_matrix.h"

#include <algorithm>
#include <cstring>

namespace fasteep {

namespace {

int padded_inputs(DType dtype, int inputs) {
  return dtype == DType::kBFloat16 ? (inputs + 1) / 2 * 2 : inputs;
}

size_t panel_bytes(DType dtype, int inputs) {
  return size_t{kPanelWidth} * padded_inputs(dtype, inputs) * size_bytes(dtype);
}

// Words as the packed layout interleaves them: one float32, or a pair of bfloat16 (the second zero
// past the end).
struct WordSource {
  DType to, from;
  int inputs;
  const std::byte* row;

  float value(int k) const {
    if (from == DType::kFloat32) {
      float x;
      std::memcpy(&x, row + size_t{4} * k, 4);
      return x;
    }
    BFloat16 x;
    std::memcpy(&x.bits, row + size_t{2} * k, 2);
    return static_cast<float>(x);
  }
  uint32_t word(int i) const {
    if (to == DType::kFloat32) return std::bit_cast<uint32_t>(value(i));
    const uint32_t even = BFloat16(value(2 * i)).bits;
    const uint32_t odd = 2 * i + 1 < inputs ? BFloat16(value(2 * i + 1)).bits : 0;
    return even | odd << 16;
  }
};

// Words that need no conversion: whole rows are 32-bit columns of a transpose.
bool is_plain_copy(DType to, DType from, int inputs) {
  return to == from && (to == DType::kFloat32 || inputs % 2 == 0);
}

// out[i * kPanelWidth + r] = source[r * words + i] for `rows` <= kPanelWidth rows.
void transpose_words(const std::byte* source, int rows, int words, uint32_t* out) {
  constexpr int kBlock = 16;  // words of a row read at a time: a cache line
  for (int first = 0; first < words; first += kBlock) {
    const int n = std::min(kBlock, words - first);
    for (int r = 0; r < rows; ++r) {
      uint32_t line[kBlock];
      std::memcpy(line, source + size_t{4} * (size_t(r) * words + first), size_t{4} * n);
      for (int i = 0; i < n; ++i) out[size_t(first + i) * kPanelWidth + r] = line[i];
    }
  }
}

}  // namespace

size_t packed_size_bytes(DType dtype, int outputs, int inputs) {
  const size_t panels = (static_cast<size_t>(outputs) + kPanelWidth - 1) / kPanelWidth;
  return panels * panel_bytes(dtype, inputs);
}

void pack_begin(DType dtype, int outputs, int inputs, std::byte* destination) {
  const int tail = outputs % kPanelWidth;
  if (tail == 0) return;  // pads within rows are written with the rows
  const size_t bytes = panel_bytes(dtype, inputs);
  std::memset(destination + packed_size_bytes(dtype, outputs, inputs) - bytes, 0, bytes);
}

void pack_rows(DType dtype, int outputs, int inputs, int first_output, int rows, DType source_dtype,
               const std::byte* source, std::byte* destination) {
  CHECK(first_output >= 0 && rows >= 0 && first_output + rows <= outputs,
        "packing rows {}+{} of {}", first_output, rows, outputs);
  const int words = padded_inputs(dtype, inputs) * static_cast<int>(size_bytes(dtype)) / 4;
  const size_t row_bytes = size_bytes(source_dtype) * inputs;
  for (int row = 0; row < rows;) {
    const int output = first_output + row;
    const int lane = output % kPanelWidth;
    const int count = std::min(kPanelWidth - lane, rows - row);
    auto* out = reinterpret_cast<uint32_t*>(destination +
                                            output / kPanelWidth * panel_bytes(dtype, inputs)) +
                lane;
    if (is_plain_copy(dtype, source_dtype, inputs)) {
      transpose_words(source + row * row_bytes, count, words, out);
    } else {
      for (int r = 0; r < count; ++r) {
        const WordSource in{dtype, source_dtype, inputs, source + (row + r) * row_bytes};
        for (int i = 0; i < words; ++i) out[size_t(i) * kPanelWidth + r] = in.word(i);
      }
    }
    row += count;
  }
}

}  // namespace fasteep
