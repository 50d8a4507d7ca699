#pragma once
// What several tests of this room need: fixture folders and folders that vanish.
#include <filesystem>
#include <fstream>
#include <string>

#include "base/check.h"

namespace fasteep {

inline std::string fixture(const std::string& name) {
  return FASTEEP_SOURCE_DIR "/tests/fixtures/" + name;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "fasteep-model-XXXXXX").string();
    CHECK(::mkdtemp(name.data()) != nullptr, "mkdtemp {}", name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
  }

 private:
  std::string path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file.good(), "open {}", path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace fasteep
