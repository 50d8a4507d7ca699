#pragma once
// The safetensors file format: a validated header over a read-only memory mapping.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fasteep {

// Element types by their name in the file. Only float types of 16 and 32 bits can be loaded.
enum class StoredType : uint8_t { kF32, kF16, kBF16, kOther };

struct TensorView {
  std::string name;
  StoredType type = StoredType::kOther;
  std::string type_name;             // as the file spells it: "BF16"
  std::vector<int64_t> shape;        // row-major
  std::span<const std::byte> bytes;  // not aligned
};

std::string shape_text(std::span<const int64_t> shape);  // "[64, 32]"

// Parses and validates a header against a data buffer of `buffer`: every tensor's bytes fit its
// shape and lie inside, none overlap, none are left over. Errors name `where` and the tensor. Pure;
// any thread.
Result<std::vector<TensorView>> parse_safetensors_header(std::string_view header,
                                                         std::span<const std::byte> buffer,
                                                         std::string_view where);
// A whole file's bytes: 8 bytes of header length, header, buffer.
Result<std::vector<TensorView>> parse_safetensors(std::span<const std::byte> file,
                                                  std::string_view where);

// Threads: any, after open(). The file must not be cut short while it is mapped.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  ~SafetensorsFile();

  const std::string& path() const { return path_; }
  const std::vector<TensorView>& tensors() const { return tensors_; }  // by place in the file

 private:
  SafetensorsFile() = default;
  std::string path_;
  std::span<const std::byte> mapping_;
  std::vector<TensorView> tensors_;
};

}  // namespace fasteep
