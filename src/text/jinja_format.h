#pragma once
// How values become text: Python's str(), repr() and json.dumps(), and format strings.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja_runtime.h"

namespace fasteep::jinja {

// str(value); nothing for an undefined value.
void append_text(Runtime& runtime, TextBuilder& out, const Value& value);
// repr(value)
void append_repr(Runtime& runtime, TextBuilder& out, const Value& value);
// HTML-escaped, as the `escape` filter does.
void append_escaped(TextBuilder& out, const Text& text);
// The shortest digits that read back as `number`: "1.0", "1e-07", "inf".
std::string float_repr(double number);

// value as a text: itself if it is one, else str(value).
Value to_text(Runtime& runtime, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // repeated once per level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
void append_json(Runtime& runtime, TextBuilder& out, const Value& value, const JsonStyle& style,
                 int level = 0);

// `from_input`: whether the document's strings count as input of the request.
Value from_json(Runtime& runtime, const nlohmann::ordered_json& json, bool from_input,
                int depth = 0);

// `format % arguments`
Value percent_format(Runtime& runtime, const Text& format, const Value& arguments);
// `format.format(arguments...)`: fields by position or name, with a conversion, width, precision.
Value brace_format(Runtime& runtime, const Text& format, const Args& args);

}  // namespace fasteep::jinja
