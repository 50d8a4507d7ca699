#include "model/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "model/json_input.h"

namespace fasteep {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

struct TypeRow {
  std::string_view name;
  int bits;
  StoredType type;
};
constexpr TypeRow kTypes[] = {
    {"F32", 32, StoredType::kF32},      {"F16", 16, StoredType::kF16},
    {"BF16", 16, StoredType::kBF16},    {"F64", 64, StoredType::kOther},
    {"I64", 64, StoredType::kOther},    {"U64", 64, StoredType::kOther},
    {"I32", 32, StoredType::kOther},    {"U32", 32, StoredType::kOther},
    {"I16", 16, StoredType::kOther},    {"U16", 16, StoredType::kOther},
    {"I8", 8, StoredType::kOther},      {"U8", 8, StoredType::kOther},
    {"BOOL", 8, StoredType::kOther},    {"C64", 64, StoredType::kOther},
    {"F8_E4M3", 8, StoredType::kOther}, {"F8_E5M2", 8, StoredType::kOther},
    {"F8_E8M0", 8, StoredType::kOther}, {"F6_E2M3", 6, StoredType::kOther},
    {"F6_E3M2", 6, StoredType::kOther}, {"F4", 4, StoredType::kOther},
};

const TypeRow* find_type(std::string_view name) {
  for (const TypeRow& row : kTypes)
    if (row.name == name) return &row;
  return nullptr;
}

Result<std::vector<int64_t>> parse_shape(const Json& entry, const std::string& where) {
  const auto found = entry.find("shape");
  if (found == entry.end() || !found->is_array()) return invalid_input("{} has no shape", where);
  std::vector<int64_t> shape;
  for (const Json& size : *found) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > (uint64_t{1} << 62))
      return invalid_input("{}: a size in its shape is not a count", where);
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

// Bytes that the shape implies; error if the product does not fit 64 bits or ends inside a byte.
Result<uint64_t> expected_bytes(std::span<const int64_t> shape, const TypeRow& type,
                                const std::string& where) {
  unsigned __int128 bits = static_cast<unsigned>(type.bits);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return uint64_t{0};
  for (const int64_t size : shape) {
    bits *= static_cast<uint64_t>(size);
    if (bits >> 64 != 0) return invalid_input("{}: its shape overflows", where);
  }
  if (bits % 8 != 0) return invalid_input("{}: its shape ends inside a byte", where);
  return static_cast<uint64_t>(bits / 8);
}

Result<std::pair<uint64_t, uint64_t>> parse_offsets(const Json& entry, uint64_t buffer_bytes,
                                                    const std::string& where) {
  const auto found = entry.find("data_offsets");
  if (found == entry.end() || !found->is_array() || found->size() != 2 ||
      !(*found)[0].is_number_unsigned() || !(*found)[1].is_number_unsigned())
    return invalid_input("{} has no data_offsets [begin, end]", where);
  const uint64_t begin = (*found)[0].get<uint64_t>(), end = (*found)[1].get<uint64_t>();
  if (begin > end) return invalid_input("{}: it begins at {} after its end {}", where, begin, end);
  if (end > buffer_bytes)
    return invalid_input("{}: it ends at byte {} of {}: the file is cut short", where, end,
                         buffer_bytes);
  return std::pair(begin, end);
}

Result<TensorView> parse_tensor(const std::string& name, const Json& entry,
                                std::span<const std::byte> buffer, std::string_view file) {
  const std::string where = fmt::format("{}: tensor {}", file, name);
  if (!entry.is_object()) return invalid_input("{}: not an object", where);
  const auto type_name = entry.find("dtype");
  if (type_name == entry.end() || !type_name->is_string())
    return invalid_input("{} has no dtype", where);
  const TypeRow* type = find_type(type_name->get_ref<const std::string&>());
  if (!type) return invalid_input("{}: unknown dtype {}", where, type_name->get<std::string>());
  FASTEEP_TRY(std::vector<int64_t> shape, parse_shape(entry, where));
  FASTEEP_TRY(const uint64_t bytes, expected_bytes(shape, *type, where));
  FASTEEP_TRY(const auto range, parse_offsets(entry, buffer.size(), where));
  if (range.second - range.first != bytes)
    return invalid_input("{}: {} bytes stored, {} {} needs {}", where, range.second - range.first,
                         type->name, shape_text(shape), bytes);
  return TensorView{name, type->type, std::string(type->name), std::move(shape),
                    buffer.subspan(range.first, bytes)};
}

// Sorted by place, tensors must follow one another to the last byte.
Result<void> check_cover(const std::vector<TensorView>& tensors, std::span<const std::byte> buffer,
                         std::string_view where) {
  const std::byte* next = buffer.data();
  for (const TensorView& tensor : tensors) {
    if (tensor.bytes.data() < next)
      return invalid_input("{}: tensor {} overlaps another one", where, tensor.name);
    if (tensor.bytes.data() > next)
      return invalid_input("{}: bytes before tensor {} belong to none", where, tensor.name);
    next = tensor.bytes.data() + tensor.bytes.size();
  }
  if (next != buffer.data() + buffer.size())
    return invalid_input("{}: bytes after the last tensor belong to none", where);
  return {};
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<std::vector<TensorView>> parse_safetensors_header(std::string_view header,
                                                         std::span<const std::byte> buffer,
                                                         std::string_view where) {
  const JsonLimits limits{.max_depth = 4, .unique_keys = true};
  FASTEEP_TRY(const Json object, parse_json(header, fmt::format("{}: header", where), limits));
  if (!object.is_object()) return invalid_input("{}: its header is not a JSON object", where);
  std::vector<TensorView> tensors;
  tensors.reserve(object.size());
  for (const auto& [name, entry] : object.items()) {
    if (name == "__metadata__") continue;
    FASTEEP_TRY(TensorView tensor, parse_tensor(name, entry, buffer, where));
    tensors.push_back(std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  FASTEEP_TRY_VOID(check_cover(tensors, buffer, where));
  return tensors;
}

Result<std::vector<TensorView>> parse_safetensors(std::span<const std::byte> file,
                                                  std::string_view where) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof(header_bytes))
    return invalid_input("{}: {} bytes are no safetensors file", where, file.size());
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  const std::span<const std::byte> rest = file.subspan(sizeof(header_bytes));
  if (header_bytes > kMaxHeaderBytes)
    return invalid_input("{}: a header of {} bytes (at most {}): not a safetensors file?", where,
                         header_bytes, kMaxHeaderBytes);
  if (header_bytes > rest.size())
    return invalid_input("{}: its header needs {} bytes, {} are left: the file is cut short", where,
                         header_bytes, rest.size());
  const std::string_view header(reinterpret_cast<const char*>(rest.data()), header_bytes);
  return parse_safetensors_header(header, rest.subspan(header_bytes), where);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error("open " + path, errno);
  struct stat status = {};
  const bool regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  const size_t size = regular ? static_cast<size_t>(status.st_size) : 0;
  void* data = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  const int map_error = errno;
  ::close(fd);
  if (size == 0) return invalid_input("{} is empty or not a regular file", path);
  if (data == MAP_FAILED) return io_error("map " + path, map_error);
  SafetensorsFile file;
  file.path_ = path;
  file.mapping_ = {static_cast<const std::byte*>(data), size};
  FASTEEP_TRY(file.tensors_, parse_safetensors(file.mapping_, path));
  return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept { *this = std::move(other); }

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(mapping_, other.mapping_);
  std::swap(tensors_, other.tensors_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (!mapping_.empty()) ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
}

}  // namespace fasteep
