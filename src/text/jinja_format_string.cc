#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja_format.h"
#include "text/jinja_ops.h"

namespace fasteep::jinja {

namespace {
struct Spec {
  bool left = false, plus = false, space = false, zero = false;
  bool pad_left_default = true;  // where the padding goes without an explicit side
  std::size_t width = 0;
  int precision = -1;
  char type = 's';
};
// More digits than any double has; also bounds the buffers below.
constexpr int kMaxPrecision = 400;
constexpr std::size_t kMaxWidth = 1 << 16;

std::size_t read_number(std::string_view format, std::size_t& at) {
  std::size_t number = 0;
  for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at) {
    number = number * 10 + static_cast<std::size_t>(format[at] - '0');
    if (number > kMaxWidth) throw Failure("a width in a format string is too large");
  }
  return number;
}

// [flags][width][.precision]
void read_spec(std::string_view format, std::size_t& at, Spec& spec) {
  for (; at < format.size(); ++at) {
    const char c = format[at];
    if (c == '-' || c == '<')
      spec.left = true;
    else if (c == '>')
      spec.pad_left_default = true;
    else if (c == '+')
      spec.plus = true;
    else if (c == ' ')
      spec.space = true;
    else if (c == '0')
      spec.zero = true;
    else if (c != '#')
      break;
  }
  spec.width = read_number(format, at);
  if (at < format.size() && format[at] == '.') {
    spec.precision = static_cast<int>(read_number(format, ++at));
    if (spec.precision > kMaxPrecision)
      throw Failure("a precision in a format string is too large");
  }
}

std::string float_digits(double number, const Spec& spec) {
  if (!std::isfinite(number)) return float_repr(std::fabs(number));
  const char pattern[] = {'%', '.', '*', spec.type, '\0'};
  char buffer[kMaxPrecision + 400];
  const int size = std::snprintf(buffer, sizeof buffer, pattern,
                                 spec.precision < 0 ? 6 : spec.precision, std::fabs(number));
  return std::string(buffer, static_cast<std::size_t>(size));
}

std::string int_digits(Int number, char type) {
  const auto magnitude =
      number < 0 ? -static_cast<unsigned __int128>(number) : static_cast<unsigned __int128>(number);
  switch (type) {
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'b':
      return fmt::format("{:b}", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

void append_padded(TextBuilder& out, const Text& body, const Spec& spec) {
  const std::size_t size = count_characters(body.bytes);
  const std::size_t padding = spec.width > size ? spec.width - size : 0;
  const bool before = !spec.left && spec.pad_left_default;
  if (before) out.fill(padding, ' ');
  out.append(body);
  if (!before) out.fill(padding, ' ');
}

void append_number(Runtime& runtime, TextBuilder& out, const Value& value, const Spec& spec) {
  require_defined(value);
  if (!value.is_number())
    throw Failure(
        fmt::format("%{} format: a real number is required, not {}", spec.type, value.type_name()));
  const bool real = std::string_view("eEfFgG").find(spec.type) != std::string_view::npos;
  const double number = value.as_double();
  if (!real && (!std::isfinite(number) || std::fabs(number) > 1e37))
    throw Failure("a number is too large for an integer format");
  const bool negative = std::signbit(number) && (real || number <= -1);
  std::string digits =
      real ? float_digits(number, spec)
           : int_digits(value.is_integral() ? value.as_int() : static_cast<Int>(number), spec.type);
  const std::string_view sign = negative ? "-" : spec.plus ? "+" : spec.space ? " " : "";
  if (!real && spec.precision > static_cast<int>(digits.size()))
    digits.insert(0, static_cast<std::size_t>(spec.precision) - digits.size(), '0');
  if (spec.zero && !spec.left && sign.size() + digits.size() < spec.width)
    digits.insert(0, spec.width - sign.size() - digits.size(), '0');
  TextBuilder body = runtime.builder();
  body.append(sign);
  body.append(digits);
  append_padded(out, body.take(), spec);
}

void append_string(Runtime& runtime, TextBuilder& out, const Value& value, const Spec& spec) {
  TextBuilder body = runtime.builder();
  if (spec.type == 'r') {
    append_repr(runtime, body, value);
  } else {
    append_text(runtime, body, value);
  }
  Text text = body.take();
  if (spec.precision >= 0) {
    const auto offsets = character_offsets(text.bytes);
    const auto kept =
        std::min<std::size_t>(static_cast<std::size_t>(spec.precision), offsets.size() - 1);
    TextBuilder cut = runtime.builder();
    cut.append(text, 0, offsets[kept]);
    text = cut.take();
  }
  append_padded(out, text, spec);
}

void append_formatted(Runtime& runtime, TextBuilder& out, const Value& value, const Spec& spec) {
  runtime.charge(1 + spec.width / 64);
  if (spec.type == 's' || spec.type == 'r') return append_string(runtime, out, value, spec);
  if (std::string_view("diuxXobeEfFgG").find(spec.type) == std::string_view::npos)
    throw Failure(fmt::format("unsupported format character '{}'", spec.type));
  append_number(runtime, out, value, spec);
}

// The values of a `%` format, taken one after the other or by name.
class PercentArguments {
 public:
  explicit PercentArguments(const Value& value) : value_(value) {
    const List* list = value.list();
    if (list && list->kind == ListKind::kTuple) tuple_ = list;
  }
  const Value& next() {
    const std::size_t count = tuple_ ? tuple_->items.size() : 1;
    if (used_ >= count) throw Failure("not enough arguments for format string");
    return tuple_ ? tuple_->items[used_++] : (++used_, value_);
  }
  Value named(Runtime& runtime, std::string_view name) {
    if (!value_.dict()) throw Failure("format requires a mapping");
    by_name_ = true;
    return get_item(runtime, value_, runtime.text(name));
  }
  void require_all_used() const {
    const std::size_t count = tuple_ ? tuple_->items.size() : 1;
    const bool optional =
        by_name_ || value_.dict() || value_.is_undefined() || (value_.list() && !tuple_);
    if (used_ < count && !optional)
      throw Failure("not all arguments converted during string formatting");
  }

 private:
  const Value& value_;
  const List* tuple_ = nullptr;
  std::size_t used_ = 0;
  bool by_name_ = false;
};

// One conversion; `at` stands behind the '%'.
void append_conversion(Runtime& runtime, TextBuilder& out, std::string_view format, std::size_t& at,
                       PercentArguments& arguments) {
  std::optional<Value> named;
  if (at < format.size() && format[at] == '(') {
    const std::size_t close = format.find(')', at);
    if (close == std::string_view::npos) throw Failure("incomplete format key");
    named = arguments.named(runtime, format.substr(at + 1, close - at - 1));
    at = close + 1;
  }
  Spec spec;
  read_spec(format, at, spec);
  if (at >= format.size()) throw Failure("incomplete format");
  spec.type = format[at++];
  if (spec.type == '%') return out.append("%");
  append_formatted(runtime, out, named ? *named : arguments.next(), spec);
}
}  // namespace

Value percent_format(Runtime& runtime, const Text& format, const Value& arguments) {
  TextBuilder out = runtime.builder();
  PercentArguments values(arguments);
  const std::string& bytes = format.bytes;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t percent = std::min(bytes.find('%', at), bytes.size());
    out.append(format, at, percent);
    at = percent + 1;
    if (percent < bytes.size()) append_conversion(runtime, out, bytes, at, values);
  }
  values.require_all_used();
  return runtime.text(std::move(out));
}

namespace {
// "name:spec" between braces.
void append_field(Runtime& runtime, TextBuilder& out, std::string_view field, const Args& args,
                  std::size_t& next_position) {
  const std::size_t colon = std::min(field.find(':'), field.size());
  const std::string_view name = field.substr(0, colon);
  const Value* value = nullptr;
  std::size_t digits = 0;
  const std::size_t position = name.empty() ? next_position++ : read_number(name, digits);
  if (digits == name.size()) {
    value = position < args.positional.size() ? &args.positional[position] : nullptr;
  } else {
    value = args.find_keyword(name);
  }
  if (!value) throw Failure(fmt::format("format() has no argument for the field '{}'", field));
  Spec spec;
  spec.pad_left_default = value->is_number();
  if (colon < field.size()) {
    std::size_t at = colon + 1;
    read_spec(field, at, spec);
    spec.type = at < field.size()      ? field[at++]
                : !value->is_number()  ? 's'
                : value->is_integral() ? 'd'
                : spec.precision < 0   ? 's'
                                       : 'g';
    if (at < field.size()) throw Failure(fmt::format("unsupported format field '{}'", field));
  }
  append_formatted(runtime, out, *value, spec);
}
}  // namespace

Value brace_format(Runtime& runtime, const Text& format, const Args& args) {
  TextBuilder out = runtime.builder();
  const std::string& bytes = format.bytes;
  std::size_t next_position = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.append(format, at, brace);
    if (brace == bytes.size()) break;
    if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
      out.append(format, brace, brace + 1);
      at = brace + 2;
      continue;
    }
    const std::size_t close = bytes.find('}', brace);
    if (bytes[brace] == '}' || close == std::string::npos)
      throw Failure("a single brace in a format string");
    append_field(runtime, out, std::string_view(bytes).substr(brace + 1, close - brace - 1), args,
                 next_position);
    at = close + 1;
  }
  return runtime.text(std::move(out));
}

}  // namespace fasteep::jinja
