#pragma once
// Cuts a byte stream into messages: each is its length (32 bits, little endian), then its bytes.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fasteep {

inline constexpr uint32_t kMaxFrameBytes = uint32_t{64} << 20;
inline constexpr size_t kFrameHeaderBytes = 4;

// Writes the header of a frame with `size` bytes.
void write_frame_header(uint32_t size, char* destination);

// Pure. Threads: one.
class FrameDecoder {
 public:
  void append(std::string_view bytes);
  // The next whole message, valid until the next call; nothing while it is incomplete.
  // Error kInvalidInput: the length is over the limit, and the stream cannot be read any further.
  Result<std::optional<std::string_view>> next();

 private:
  std::string buffer_;
  size_t consumed_ = 0;  // bytes at the front that next() gave out
};

}  // namespace fasteep
