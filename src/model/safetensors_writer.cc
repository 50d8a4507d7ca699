#include "model/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

namespace fasteep {

std::string safetensors_header(std::span<const StoredTensor> tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  uint64_t offset = 0;
  for (const StoredTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.type_name},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.size_bytes}}};
    offset += tensor.size_bytes;
  }
  std::string text = header.dump();
  while ((text.size() + sizeof(uint64_t)) % 64 != 0) text += ' ';
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::span<const StoredTensor> tensors) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0 && errno == EEXIST) return invalid_input("{} exists: choose another folder", path);
  if (fd < 0) return io_error("create " + path, errno);
  const std::string header = safetensors_header(tensors);
  uint64_t total = header.size();
  for (const StoredTensor& tensor : tensors) total += tensor.size_bytes;
  SafetensorsWriter writer(path, fd, total);
  FASTEEP_TRY_VOID(writer.append(std::as_bytes(std::span(header))));
  return writer;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      remaining_(other.remaining_) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(path_.c_str());
}

Result<void> SafetensorsWriter::append(std::span<const std::byte> bytes) {
  CHECK(bytes.size() <= remaining_, "{} bytes beyond the end of {}", bytes.size(), path_);
  remaining_ -= bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error("write " + path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<void> SafetensorsWriter::finish() {
  CHECK(remaining_ == 0, "{} bytes of {} were not written", remaining_, path_);
  if (::close(std::exchange(fd_, -1)) != 0) return io_error("close " + path_, errno);
  return {};
}

}  // namespace fasteep
