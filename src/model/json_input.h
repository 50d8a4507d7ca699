#pragma once
// JSON from outside: parsed with a depth limit and without exceptions, and read key by key so that
// an error names the file, the key and what was expected.
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fasteep {

struct JsonLimits {
  int max_depth = 64;
  bool unique_keys = false;  // an object that names a key twice is an error
};

// `what` names the source in errors ("config.json"). Any thread.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view what,
                                  const JsonLimits& limits = {});

// A whole file as text; kNotFound if there is none, kInvalidInput if it is longer than `max_bytes`.
Result<std::string> read_text_file(const std::string& path, size_t max_bytes);

// Reads members of one JSON object. A null counts as absent. The object outlives the reader.
class JsonReader {
 public:
  // `where` prefixes keys in errors: "config.json: rope_scaling.".
  JsonReader(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  bool has(const char* key) const { return find(key) != nullptr; }
  const nlohmann::json* find(const char* key) const;  // nullptr when absent or null

  // The optional ones are empty when the key is absent; the others take `fallback` or report it.
  Result<std::optional<int64_t>> optional_integer(const char* key, int64_t low, int64_t high) const;
  Result<std::optional<double>> optional_real(const char* key, double low, double high) const;
  Result<int> integer(const char* key, int low, int high, std::optional<int> fallback = {}) const;
  Result<double> real(const char* key, double low, double high,
                      std::optional<double> fallback = {}) const;
  Result<bool> boolean(const char* key, bool fallback) const;
  Result<std::string> text(const char* key, std::string fallback) const;
  // A single integer or a list of them; empty when absent.
  Result<std::vector<int>> integers(const char* key, int low, int high) const;
  // A member object's reader; error if the key holds something else. The key must be there.
  Result<JsonReader> object(const char* key) const;

  Error wrong(const char* key, std::string_view expected) const;
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace fasteep
