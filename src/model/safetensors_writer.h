#pragma once
// Writes a safetensors file as a stream: the header first, then each tensor's bytes in order.
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace fasteep {

struct StoredTensor {
  std::string name;
  std::string type_name;  // "BF16", "F32", "F16"
  std::vector<int64_t> shape;
  uint64_t size_bytes = 0;
};

// The 8 length bytes and the header, padded with spaces to a multiple of 64 bytes so that tensors
// of whole cache lines stay aligned.
std::string safetensors_header(std::span<const StoredTensor> tensors);

// One thread. A file that was not finish()ed is removed.
class SafetensorsWriter {
 public:
  // Error kInvalidInput if the file exists.
  static Result<SafetensorsWriter> create(const std::string& path,
                                          std::span<const StoredTensor> tensors);
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  Result<void> append(std::span<const std::byte> bytes);
  Result<void> finish();

 private:
  SafetensorsWriter(std::string path, int fd, uint64_t remaining)
      : path_(std::move(path)), fd_(fd), remaining_(remaining) {}
  std::string path_;
  int fd_ = -1;
  uint64_t remaining_ = 0;  // bytes not appended yet
};

}  // namespace fasteep
