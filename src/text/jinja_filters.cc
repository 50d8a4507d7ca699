// Filters on any value: numbers, defaults, JSON.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_ops.h"

namespace fasteep::jinja {

namespace {
Value default_value(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("default", {"default_value", "boolean"});
  const bool replaces = self.is_undefined() || (flag_argument(bound[1], false) && !self.truth());
  if (!replaces) return self;
  return bound[0] ? *bound[0] : runtime.text("");
}

// Without white space around and underscores between digits, as int() and float() read strings.
std::string number_text(const Text& text) {
  const TextRange range = strip_range(text.bytes, "", true, true);
  std::string digits = text.bytes.substr(range.begin, range.end - range.begin);
  for (std::size_t i = 1; i + 1 < digits.size(); ++i) {
    if (digits[i] == '_' && std::isdigit(static_cast<unsigned char>(digits[i - 1])) &&
        std::isdigit(static_cast<unsigned char>(digits[i + 1])))
      digits.erase(i, 1);
  }
  return digits;
}

std::optional<Int> parse_int(std::string_view digits, int base) {
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty()) return std::nullopt;
  Int number = 0;
  for (char c : digits) {
    const int digit = c >= '0' && c <= '9'                     ? c - '0'
                      : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10
                                                               : 99;
    if (digit >= base || __builtin_mul_overflow(number, Int{base}, &number) ||
        __builtin_add_overflow(number, Int{digit}, &number))
      return std::nullopt;
  }
  return negative ? -number : number;
}

std::optional<double> parse_double(std::string_view digits) {
  if (digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.starts_with('+')) return std::nullopt;
  double number = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (end.ptr != digits.data() + digits.size()) return std::nullopt;
  if (end.ec == std::errc()) return number;
  if (end.ec != std::errc::result_out_of_range) return std::nullopt;
  return std::strtod(std::string(digits).c_str(), nullptr);
}

std::optional<Int> truncated(double number) {
  if (!std::isfinite(number) || std::fabs(number) > 1e37) return std::nullopt;
  return static_cast<Int>(number);
}

Value int_filter(Runtime&, const Value& self, const Args& args) {
  const auto bound = args.bind("int", {"default", "base"});
  require_defined(self);
  std::optional<Int> number;
  if (const Text* text = self.text()) {
    const std::string digits = number_text(*text);
    number = parse_int(digits, static_cast<int>(int_argument(bound[1], 10)));
    const std::optional<double> real = number ? std::nullopt : parse_double(digits);
    if (real) number = truncated(*real);
  } else if (self.is_number()) {
    number = self.is_integral() ? self.as_int() : truncated(self.as_double());
  }
  if (number) return *number;
  return bound[0] ? *bound[0] : Value(0);
}

Value float_filter(Runtime&, const Value& self, const Args& args) {
  const auto bound = args.bind("float", {"default"});
  require_defined(self);
  if (self.is_number()) return self.as_double();
  const std::optional<double> number =
      self.text() ? parse_double(number_text(*self.text())) : std::nullopt;
  if (number) return *number;
  return bound[0] ? *bound[0] : Value(0.0);
}

Value abs_filter(Runtime&, const Value& self, const Args& args) {
  args.bind("abs", {});
  require_defined(self);
  if (!self.is_number())
    throw Failure(fmt::format("bad operand type for abs(): '{}'", self.type_name()));
  if (self.is_integral()) return self.as_int() < 0 ? negate(self) : Value(self.as_int());
  return std::fabs(self.as_double());
}

// Half to even on the exact binary value, as Python does; printf does the same.
double rounded(double number, int digits) {
  char buffer[512];
  const int size = std::snprintf(buffer, sizeof buffer, "%.*f", digits, number);
  return size < static_cast<int>(sizeof buffer) ? std::strtod(buffer, nullptr) : number;
}

Value round_filter(Runtime&, const Value& self, const Args& args) {
  const auto bound = args.bind("round", {"precision", "method"});
  require_defined(self);
  if (!self.is_number()) throw Failure(fmt::format("type {} cannot be rounded", self.type_name()));
  const auto digits = static_cast<int>(std::clamp(int_argument(bound[0], 0), Int{-1}, Int{100}));
  if (digits < 0) throw Failure("round() with a negative precision is not supported");
  const std::string method = bound[1] ? text_argument(bound[1], "round").bytes : "common";
  if (method == "common") {
    if (self.is_integral()) return self.as_int();
    return std::isfinite(self.as_double()) ? rounded(self.as_double(), digits) : self.as_double();
  }
  const double scale = std::pow(10.0, digits);
  if (method == "ceil") return std::ceil(self.as_double() * scale) / scale;
  if (method == "floor") return std::floor(self.as_double() * scale) / scale;
  throw Failure("round() takes the methods common, ceil and floor");
}

std::optional<std::string> indent_argument(const Value* argument) {
  if (!argument || argument->is_none()) return std::nullopt;
  if (const Text* text = argument->text()) return text->bytes;
  constexpr Int kMaxIndent = 256;
  return std::string(
      static_cast<std::size_t>(std::clamp(int_argument(argument, 0), Int{0}, kMaxIndent)), ' ');
}

Value tojson(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = flag_argument(bound[0], false);
  style.indent = indent_argument(bound[1]);
  if (style.indent) style.item_separator = ",";
  if (bound[2] && !bound[2]->is_none()) {
    const auto separators = iterate(runtime, *bound[2]);
    if (separators->items.size() != 2) throw Failure("tojson() needs two separators");
    style.item_separator = text_argument(&separators->items[0], "tojson").bytes;
    style.key_separator = text_argument(&separators->items[1], "tojson").bytes;
  }
  style.sort_keys = flag_argument(bound[3], false);
  TextBuilder out = runtime.builder();
  append_json(runtime, out, self, style);
  return runtime.text(std::move(out));
}

Value from_json_filter(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("from_json", {});
  const Text& text = text_argument(&self, "from_json");
  runtime.charge(text.bytes.size() / 4);
  const auto json = nlohmann::ordered_json::parse(text.bytes, nullptr, false);
  if (json.is_discarded()) throw Failure("from_json() got a string that is not JSON");
  return from_json(runtime, json, !text.input_runs.empty());
}

Value string_filter(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("string", {});
  return to_text(runtime, self);
}

Value length_filter(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("length", {});
  if (const Text* text = self.text()) runtime.charge(text->bytes.size() / 16);
  return length(self);
}

Value attr_filter(Runtime& runtime, const Value& self, const Args& args) {
  const Text& name = text_argument(args.bind("attr", {"name"})[0], "attr");
  require_defined(self);
  Value found;
  if (find_attribute(runtime, self, name.bytes, found)) return found;
  return Value::undefined(
      fmt::format("'{} object' has no attribute '{}'", self.type_name(), name.bytes));
}

constexpr BuiltinEntry kFilters[] = {{"default", default_value}, {"d", default_value},
                                     {"int", int_filter},        {"float", float_filter},
                                     {"abs", abs_filter},        {"round", round_filter},
                                     {"tojson", tojson},         {"from_json", from_json_filter},
                                     {"string", string_filter},  {"length", length_filter},
                                     {"count", length_filter},   {"attr", attr_filter}};
}  // namespace

Builtin find_filter(std::string_view name) {
  if (const Builtin filter = find_builtin(kFilters, name)) return filter;
  if (const Builtin filter = find_text_filter(name)) return filter;
  return find_sequence_filter(name);
}

}  // namespace fasteep::jinja
