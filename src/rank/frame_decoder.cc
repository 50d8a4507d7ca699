#include "rank/frame_decoder.h"

namespace fasteep {
namespace {

uint32_t read_frame_header(std::string_view bytes) {
  uint32_t size = 0;
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) {
    size |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return size;
}

}  // namespace

void write_frame_header(uint32_t size, char* destination) {
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) {
    destination[i] = static_cast<char>((size >> (8 * i)) & 0xff);
  }
}

void FrameDecoder::append(std::string_view bytes) {
  if (consumed_ > 0) {
    buffer_.erase(0, consumed_);
    consumed_ = 0;
  }
  buffer_.append(bytes);
}

Result<std::optional<std::string_view>> FrameDecoder::next() {
  const std::string_view rest = std::string_view(buffer_).substr(consumed_);
  if (rest.size() < kFrameHeaderBytes) return std::optional<std::string_view>();
  const uint32_t size = read_frame_header(rest);
  if (size > kMaxFrameBytes) {
    return invalid_input("a message of {} bytes; at most {} are allowed", size, kMaxFrameBytes);
  }
  if (rest.size() < kFrameHeaderBytes + size) return std::optional<std::string_view>();
  consumed_ += kFrameHeaderBytes + size;
  return std::optional<std::string_view>(rest.substr(kFrameHeaderBytes, size));
}

}  // namespace fasteep
