#pragma once
// A view of a row-major matrix. Rows are row-major [rows, cols] everywhere; weights are [out, in];
// y = x * W^T. That is said here and nowhere else.
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/check.h"

namespace fasteep {

template <class T>
class Span2 {
 public:
  constexpr Span2() = default;
  constexpr Span2(T* data, int64_t rows, int64_t cols) : Span2(data, rows, cols, cols) {}
  constexpr Span2(T* data, int64_t rows, int64_t cols, int64_t stride)
      : data_(data), rows_(rows), cols_(cols), stride_(stride) {}
  // A mutable view converts to a read-only one.
  constexpr operator Span2<const T>() const requires(!std::is_const_v<T>) {
    return {data_, rows_, cols_, stride_};
  }

  constexpr T* data() const { return data_; }
  constexpr int64_t rows() const { return rows_; }
  constexpr int64_t cols() const { return cols_; }
  constexpr int64_t stride() const { return stride_; }  // elements from one row to the next
  constexpr std::span<T> row(int64_t r) const {
    DCHECK(r >= 0 && r < rows_, "row {} of {}", r, rows_);
    return {data_ + r * stride_, static_cast<size_t>(cols_)};
  }
  constexpr Span2 rows_at(int64_t first, int64_t count) const {
    DCHECK(first >= 0 && first + count <= rows_, "rows {}+{} of {}", first, count, rows_);
    return {data_ + first * stride_, count, cols_, stride_};
  }

 private:
  T* data_ = nullptr;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  int64_t stride_ = 0;
};

}  // namespace fasteep
