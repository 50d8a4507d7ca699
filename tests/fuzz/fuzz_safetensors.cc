// Arbitrary bytes as a safetensors file: an error or tensors that lie inside, never a crash.
#include "base/check.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fasteep;
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  // As a file, and as a header before a buffer of 64 bytes, which mutations reach sooner.
  (void)parse_safetensors(file, "fuzz");
  const std::string_view header(reinterpret_cast<const char*>(data), size);
  static const std::byte buffer[64] = {};
  const auto tensors = parse_safetensors_header(header, buffer, "fuzz");
  if (!tensors) return 0;
  size_t total = 0;
  for (const TensorView& tensor : *tensors) total += tensor.bytes.size();
  CHECK(total == sizeof(buffer), "{} bytes of tensors in a buffer of {}", total, sizeof(buffer));
  return 0;
}
