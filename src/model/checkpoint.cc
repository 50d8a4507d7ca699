#include "model/checkpoint.h"

#include <filesystem>
#include <map>

#include "model/json_input.h"

namespace fasteep {
namespace {

constexpr size_t kMaxIndexBytes = size_t{256} << 20;

// A shard lies in the model's folder and nowhere else.
Result<void> check_shard_name(const std::string& name, const std::string& index_path) {
  if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos ||
      name == "." || name == "..")
    return invalid_input("{}: shard \"{}\" is not a plain file name in the model's folder",
                         index_path, name);
  return {};
}

using ShardOf = std::map<std::string, std::string>;  // tensor -> shard

Result<ShardOf> parse_index(const std::string& index_path) {
  FASTEEP_TRY(const std::string text, read_text_file(index_path, kMaxIndexBytes));
  FASTEEP_TRY(const nlohmann::json index, parse_json(text, index_path));
  const JsonReader reader(index, index_path + ": ");
  FASTEEP_TRY(const JsonReader unused, reader.object("weight_map"));
  ShardOf shard_of;
  for (const auto& [name, shard] : reader.find("weight_map")->items()) {
    if (!shard.is_string()) return invalid_input("{}: no shard for {}", index_path, name);
    FASTEEP_TRY_VOID(check_shard_name(shard.get<std::string>(), index_path));
    shard_of[name] = shard.get<std::string>();
  }
  return shard_of;
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  const std::string index = folder + "/model.safetensors.index.json";
  if (is_file(folder + "/model.safetensors")) {
    FASTEEP_TRY_VOID(checkpoint.open_file("model.safetensors"));
    for (const TensorView& tensor : checkpoint.files_[0].tensors()) checkpoint.add(tensor);
    return checkpoint;
  }
  if (!is_file(index))
    return make_error(ErrorCode::kNotFound,
                      "{} holds neither model.safetensors nor model.safetensors.index.json: give "
                      "the folder of a downloaded model (only safetensors weights can be loaded)",
                      folder);
  FASTEEP_TRY_VOID(checkpoint.open_shards(index));
  return checkpoint;
}

Result<void> Checkpoint::open_file(const std::string& name) {
  FASTEEP_TRY(SafetensorsFile file, SafetensorsFile::open(folder_ + "/" + name));
  files_.push_back(std::move(file));
  return {};
}

Result<void> Checkpoint::open_shards(const std::string& index_path) {
  FASTEEP_TRY(const ShardOf shard_of, parse_index(index_path));
  std::map<std::string, size_t> tensors_of;  // shard -> tensors listed
  for (const auto& [name, shard] : shard_of) ++tensors_of[shard];
  std::string missing;
  for (const auto& [shard, count] : tensors_of)
    if (!is_file(folder_ + "/" + shard)) missing += " " + shard;
  if (!missing.empty())
    return make_error(ErrorCode::kNotFound, "{} names files that are not there:{}", index_path,
                      missing);
  files_.reserve(tensors_of.size());
  for (const auto& [shard, count] : tensors_of) {
    FASTEEP_TRY_VOID(open_file(shard));
    size_t found = 0;
    for (const TensorView& tensor : files_.back().tensors()) {
      const auto listed = shard_of.find(tensor.name);
      if (listed == shard_of.end() || listed->second != shard) continue;
      add(tensor);
      ++found;
    }
    if (found != count)
      return invalid_input("{}: {} of the {} tensors listed for {} are not in it", index_path,
                           count - found, count, shard);
  }
  return {};
}

void Checkpoint::add(const TensorView& tensor) {
  tensors_.push_back(&tensor);
  by_name_[tensor.name] = &tensor;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace fasteep
