#pragma once
// Weights in the layout that the vector units read: panels of kPanelWidth outputs; within a panel k
// runs outermost, for bfloat16 in pairs of k interleaved per output. The same packed bytes serve
// one row and 512, and every Isa.
#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "base/span2.h"

namespace fasteep {

inline constexpr int kPanelWidth = 32;  // outputs per panel; the last panel is padded with zeros
inline constexpr size_t kPackAlignment = 64;  // bytes; packed data starts at such an address

// A view of packed weights [outputs, inputs]; the bytes belong to somebody's pool.
struct PackedMatrix {
  DType dtype = DType::kBFloat16;
  int outputs = 0;
  int inputs = 0;
  const std::byte* data = nullptr;
};

size_t packed_size_bytes(DType dtype, int outputs, int inputs);  // a multiple of kPackAlignment

// Packs rows [first_output, first_output + rows) of W into `destination`
// (packed_size_bytes(dtype, outputs, inputs) in all). `source` is row-major [rows, inputs] in
// `source_dtype`; float32 sources are rounded to nearest even for bfloat16, bfloat16 ones are
// widened exactly for float32. Rows may come in any order and split, each exactly once; pads are
// zeroed by pack_begin, which is called first.
void pack_begin(DType dtype, int outputs, int inputs, std::byte* destination);
void pack_rows(DType dtype, int outputs, int inputs, int first_output, int rows, DType source_dtype,
               const std::byte* source, std::byte* destination);

}  // namespace fasteep
