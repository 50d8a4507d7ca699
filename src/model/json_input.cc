#include "model/json_input.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <set>

namespace fasteep {
namespace {

using Json = nlohmann::json;

// Walks the text once before a tree is built: depth, duplicate keys, syntax, UTF-8.
class Screener final : public nlohmann::json_sax<Json> {
 public:
  explicit Screener(const JsonLimits& limits) : limits_(limits) {}
  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (!limits_.unique_keys || keys_.back().insert(name).second) return true;
    problem_ = fmt::format("the key \"{}\" stands there twice", name);
    return false;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    problem_ = fmt::format("not valid JSON (UTF-8) near byte {}", position);
    return false;
  }

 private:
  bool enter() {
    keys_.emplace_back();
    if (static_cast<int>(keys_.size()) <= limits_.max_depth) return true;
    problem_ = fmt::format("nested deeper than {} levels", limits_.max_depth);
    return false;
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }

  JsonLimits limits_;
  std::string problem_;
  std::vector<std::set<std::string>> keys_;  // of the open objects; an array's stays empty
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  Screener screener(limits);
  if (!Json::sax_parse(text, &screener)) return invalid_input("{}: {}", what, screener.problem());
  Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return invalid_input("{}: not valid JSON", what);
  return parsed;
}

Result<std::string> read_text_file(const std::string& path, size_t max_bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return make_error(ErrorCode::kNotFound, "{} cannot be read: no such file", path);
  const std::streamoff size = file.tellg();
  if (size < 0) return invalid_input("{} is not a regular file", path);
  if (static_cast<size_t>(size) > max_bytes)
    return invalid_input("{} has {} bytes, more than the {} allowed", path, size, max_bytes);
  std::string text(static_cast<size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) return make_error(ErrorCode::kIo, "{} cannot be read", path);
  return text;
}

const Json* JsonReader::find(const char* key) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Error JsonReader::wrong(const char* key, std::string_view expected) const {
  const Json* value = find(key);
  std::string given =
      value ? value->dump(-1, ' ', true, Json::error_handler_t::replace) : std::string("absent");
  if (given.size() > 80) given = given.substr(0, 80) + "...";
  return invalid_input("{}{} is {}, expected {}", where_, key, given, expected).on_field(key);
}

Result<std::optional<double>> JsonReader::optional_real(const char* key, double low,
                                                        double high) const {
  const Json* value = find(key);
  if (!value) return std::optional<double>();
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high))
    return wrong(key, fmt::format("a number from {} to {}", low, high));
  return std::optional<double>(number);
}

Result<std::optional<int64_t>> JsonReader::optional_integer(const char* key, int64_t low,
                                                            int64_t high) const {
  const Json* value = find(key);
  if (!value) return std::optional<int64_t>();
  // Integers may be spelled 1e6 or 64.0; as double all of our ranges are exact.
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= static_cast<double>(low) && number <= static_cast<double>(high)) ||
      number != std::floor(number))
    return wrong(key, fmt::format("an integer from {} to {}", low, high));
  return std::optional<int64_t>(static_cast<int64_t>(number));
}

Result<int> JsonReader::integer(const char* key, int low, int high,
                                std::optional<int> fallback) const {
  FASTEEP_TRY(const std::optional<int64_t> value, optional_integer(key, low, high));
  if (value) return static_cast<int>(*value);
  if (!fallback) return wrong(key, fmt::format("an integer from {} to {}", low, high));
  return *fallback;
}

Result<double> JsonReader::real(const char* key, double low, double high,
                                std::optional<double> fallback) const {
  FASTEEP_TRY(const std::optional<double> value, optional_real(key, low, high));
  if (value) return *value;
  if (!fallback) return wrong(key, fmt::format("a number from {} to {}", low, high));
  return *fallback;
}

Result<bool> JsonReader::boolean(const char* key, bool fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) return wrong(key, "true or false");
  return value->get<bool>();
}

Result<std::string> JsonReader::text(const char* key, std::string fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_string()) return wrong(key, "a text");
  return value->get<std::string>();
}

Result<std::vector<int>> JsonReader::integers(const char* key, int low, int high) const {
  std::vector<int> numbers;
  const Json* value = find(key);
  if (!value) return numbers;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& item : list) {
    const double number = item.is_number() ? item.get<double>() : std::nan("");
    if (!(number >= low && number <= high) || number != std::floor(number))
      return wrong(key, fmt::format("integers from {} to {}", low, high));
    numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

Result<JsonReader> JsonReader::object(const char* key) const {
  const Json* value = find(key);
  if (!value || !value->is_object()) return wrong(key, "an object");
  return JsonReader(*value, fmt::format("{}{}.", where_, key));
}

}  // namespace fasteep
