#include <algorithm>
#include <cmath>

#include "text/jinja_format.h"
#include "text/jinja_ops.h"

namespace fasteep::jinja {

namespace {
std::string ascii_escape(std::int32_t c) {
  if (c < 0x10000) return fmt::format("\\u{:04x}", c);
  const std::int32_t rest = c - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
}

// The escape of one character, or empty if it stands as it is.
std::string json_escape(std::int32_t c, bool ensure_ascii) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      break;
  }
  return c < 0x20 || (ensure_ascii && c >= 0x7f) ? ascii_escape(c) : std::string();
}

void append_string(Runtime& runtime, TextBuilder& out, const Text& text, bool ensure_ascii) {
  const std::string& bytes = text.bytes;
  runtime.charge(bytes.size() / 16);
  out.append("\"");
  std::size_t copied = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const Character c = character_at(bytes, at);
    const std::string escape = json_escape(c.code_point, ensure_ascii);
    if (!escape.empty()) {
      out.append(text, copied, at);
      out.append_marked(escape, is_input_at(text, at));
      copied = at + c.size_bytes;
    }
    at += c.size_bytes;
  }
  out.append(text, copied, bytes.size());
  out.append("\"");
}

std::string json_number(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return float_repr(number);
}

// None, booleans and numbers; empty for another type.
std::string json_scalar(const Value& value) {
  if (value.is_none()) return "null";
  if (const bool* truth = value.get<bool>()) return *truth ? "true" : "false";
  if (const Int* number = value.get<Int>()) return fmt::format("{}", *number);
  if (const double* number = value.get<double>()) return json_number(*number);
  return "";
}

void append_break(TextBuilder& out, const JsonStyle& style, int level) {
  if (!style.indent) return;
  out.append("\n");
  for (int i = 0; i < level; ++i) out.append(*style.indent);
}

void append_key(Runtime& runtime, TextBuilder& out, const Value& key, const JsonStyle& style) {
  if (const Text* text = key.text()) return append_string(runtime, out, *text, style.ensure_ascii);
  const std::string scalar = json_scalar(key);
  if (scalar.empty())
    throw Failure(
        fmt::format("keys must be str, int, float, bool or None, not {}", key.type_name()));
  out.append("\"");
  out.append(scalar);
  out.append("\"");
}

void append_array(Runtime& runtime, TextBuilder& out, const List& list, const JsonStyle& style,
                  int level) {
  if (list.items.empty()) return out.append("[]");
  out.append("[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(style.item_separator);
    append_break(out, style, level + 1);
    append_json(runtime, out, list.items[i], style, level + 1);
  }
  append_break(out, style, level);
  out.append("]");
}

void append_object(Runtime& runtime, TextBuilder& out, const Dict& dict, const JsonStyle& style,
                   int level) {
  if (dict.items.empty()) return out.append("{}");
  std::vector<const std::pair<Value, Value>*> items;
  for (const auto& item : dict.items) items.push_back(&item);
  if (style.sort_keys)
    std::stable_sort(items.begin(), items.end(),
                     [&](auto* a, auto* b) { return less(runtime, a->first, b->first); });
  out.append("{");
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(style.item_separator);
    append_break(out, style, level + 1);
    append_key(runtime, out, items[i]->first, style);
    out.append(style.key_separator);
    append_json(runtime, out, items[i]->second, style, level + 1);
  }
  append_break(out, style, level);
  out.append("}");
}
}  // namespace

void append_json(Runtime& runtime, TextBuilder& out, const Value& value, const JsonStyle& style,
                 int level) {
  runtime.charge();
  if (const Text* text = value.text())
    return append_string(runtime, out, *text, style.ensure_ascii);
  if (const Dict* dict = value.dict()) return append_object(runtime, out, *dict, style, level);
  const List* list = value.list();
  if (list && list->kind != ListKind::kLazy) return append_array(runtime, out, *list, style, level);
  const std::string scalar = json_scalar(value);
  if (scalar.empty())
    throw Failure(fmt::format("Object of type {} is not JSON serializable", value.type_name()));
  out.append(scalar);
}

Value from_json(Runtime& runtime, const nlohmann::ordered_json& json, bool from_input, int depth) {
  if (depth > runtime.limits().max_value_depth)
    throw Failure(fmt::format("a JSON value is nested more than {} levels",
                              runtime.limits().max_value_depth));
  runtime.charge();
  const auto string = [&](const std::string& bytes) {
    TextBuilder out = runtime.builder();
    out.append_marked(bytes, from_input);
    return runtime.text(std::move(out));
  };
  if (json.is_string()) return string(json.get_ref<const std::string&>());
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned()) return Int{json.get<std::uint64_t>()};
  if (json.is_number_integer()) return Int{json.get<std::int64_t>()};
  if (json.is_array()) {
    std::vector<Value> items;
    for (const auto& item : json) items.push_back(from_json(runtime, item, from_input, depth + 1));
    return runtime.list(std::move(items));
  }
  if (json.is_object()) {
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [key, value] : json.items()) {
      items.emplace_back(string(key), from_json(runtime, value, from_input, depth + 1));
    }
    return runtime.dict_of_distinct(std::move(items));
  }
  return None{};
}

}  // namespace fasteep::jinja
