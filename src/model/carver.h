#pragma once
// Cuts one range of memory into aligned pieces. Without memory it only adds up the sizes, so that
// the same code says how much is needed and hands it out.
#include <cstddef>

#include "kernels/packed_matrix.h"

namespace fasteep {

class Carver {
 public:
  explicit Carver(std::byte* base = nullptr) : base_(base) {}

  std::byte* bytes(size_t size) {
    std::byte* piece = base_ ? base_ + used_ : nullptr;
    used_ += (size + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
    return piece;
  }
  template <class T>
  T* array(size_t count) {
    return reinterpret_cast<T*>(bytes(count * sizeof(T)));
  }
  size_t used_bytes() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

}  // namespace fasteep
