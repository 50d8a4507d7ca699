#pragma once
// A half-open range of byte offsets in a UTF-8 text.
#include <cstddef>

namespace fasteep {

struct TextRange {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
  bool operator==(const TextRange&) const = default;
};

}  // namespace fasteep
