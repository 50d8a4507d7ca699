#include "text/tokenizer_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace fasteep {
namespace {

constexpr int kMaxDepth = 64;  // real files nest about 6 deep

// The deepest nesting of brackets outside strings.
int nesting_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

Error wrong_type(const char* name, std::string_view expected, const Json& value) {
  return invalid_input("\"{}\" must be {}, not {}", name, expected, value.type_name());
}

}  // namespace

Result<Json> parse_json_object(std::string_view text, std::string_view where) {
  if (nesting_depth(text) > kMaxDepth) {
    return invalid_input("{} nests deeper than {} levels", where, kMaxDepth);
  }
  try {
    Json value = Json::parse(text);
    if (!value.is_object()) return invalid_input("{} must hold a JSON object", where);
    return value;
  } catch (const nlohmann::json::exception& exception) {
    return invalid_input("{} is not valid JSON: {}", where, exception.what());
  }
}

const Json* find_field(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<bool> bool_field(const Json& object, const char* name, bool fallback) {
  const Json* value = find_field(object, name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return wrong_type(name, "true or false", *value);
  return value->get<bool>();
}

Result<std::string> string_field(const Json& object, const char* name, std::string_view fallback) {
  const Json* value = find_field(object, name);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) return wrong_type(name, "a string", *value);
  return value->get<std::string>();
}

Result<std::string> required_string(const Json& object, const char* name) {
  if (find_field(object, name) == nullptr) return invalid_input("\"{}\" is missing", name);
  return string_field(object, name, "");
}

Result<const Json*> required_array(const Json& object, const char* name) {
  const Json* value = find_field(object, name);
  if (value == nullptr) return invalid_input("\"{}\" is missing", name);
  if (!value->is_array()) return wrong_type(name, "a list", *value);
  return value;
}

Result<TokenId> token_id_of(const Json& value, std::string_view what) {
  constexpr int64_t kMaxId = std::numeric_limits<TokenId>::max();
  // Beyond int64, an unsigned number reads as a negative one.
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > kMaxId) {
    return invalid_input("the id of {} must be an integer from 0 to {}", what, kMaxId);
  }
  return value.get<TokenId>();
}

}  // namespace fasteep
