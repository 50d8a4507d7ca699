#pragma once
// The weights of a model folder by name: model.safetensors, or model.safetensors.index.json and the
// shards that it names.
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/safetensors.h"

namespace fasteep {

// Threads: any, after open(). Mappings are read-only; pages are the kernel's page cache.
class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const TensorView* find(std::string_view name) const;  // nullptr if there is none
  // All tensors, in file order.
  const std::vector<const TensorView*>& tensors() const { return tensors_; }
  size_t num_files() const { return files_.size(); }

 private:
  Result<void> open_file(const std::string& name);
  Result<void> open_shards(const std::string& index_path);
  void add(const TensorView& tensor);

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::vector<const TensorView*> tensors_;
  std::unordered_map<std::string_view, const TensorView*> by_name_;  // keys live in files_
};

}  // namespace fasteep
