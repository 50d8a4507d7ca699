#pragma once
// Stored tensors in a form that kernels take: float32 or bfloat16, aligned.
#include <span>
#include <vector>

#include "base/dtype.h"
#include "model/safetensors.h"

namespace fasteep {

// float16's 16 bits; every value is exact in float32.
float half_to_float(uint16_t bits);

struct TypedRows {
  DType dtype = DType::kFloat32;
  const std::byte* data = nullptr;
};

// Threads: one. What read() returns may stand in the reader's own buffer: it is valid until the
// next read(), and for as long as the checkpoint is open.
class TensorReader {
 public:
  // Rows [first_row, first_row + num_rows) of a tensor of `cols` columns. float16 becomes float32.
  TypedRows read(const TensorView& tensor, int64_t first_row, int64_t num_rows, int64_t cols);
  // The whole of a matrix or a vector.
  TypedRows read(const TensorView& tensor);

 private:
  std::vector<float> buffer_;  // of any contents; float for its alignment
};

// count elements from one type to the other, rounded to nearest even.
void convert(TypedRows source, size_t count, DType dtype, std::byte* destination);

}  // namespace fasteep
