// Filters on strings. Other values are turned into strings first.
#include <algorithm>

#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_ops.h"

namespace fasteep::jinja {

namespace {
// A filter that is the string method of the same name.
Value call_method(Runtime& runtime, const Value& self, std::string_view method, const Args& args) {
  return find_text_method(method)(runtime, to_text(runtime, self), args);
}

Value trim(Runtime& runtime, const Value& self, const Args& args) {
  return call_method(runtime, self, "strip", args);
}
Value upper(Runtime& runtime, const Value& self, const Args& args) {
  return call_method(runtime, self, "upper", args);
}
Value lower(Runtime& runtime, const Value& self, const Args& args) {
  return call_method(runtime, self, "lower", args);
}
Value capitalize(Runtime& runtime, const Value& self, const Args& args) {
  return call_method(runtime, self, "capitalize", args);
}
Value center(Runtime& runtime, const Value& self, const Args& args) {
  if (!args.positional.empty() || !args.keyword.empty())
    return call_method(runtime, self, "center", args);
  return call_method(runtime, self, "center", Args{{Value(80)}, {}});
}

Value replace(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("replace", {"old", "new", "count"});
  if (!bound[0] || !bound[1]) throw Failure("replace() needs what to replace and by what");
  Args texts{{to_text(runtime, *bound[0]), to_text(runtime, *bound[1])}, {}};
  if (bound[2]) texts.positional.push_back(*bound[2]);
  return call_method(runtime, self, "replace", texts);
}

// Words begin after white space, a hyphen or an opening bracket: not as the method title() has it.
Value title(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("title", {});
  const Value whole = to_text(runtime, self);
  const Text& text = *whole.text();
  runtime.charge(text.bytes.size() / 16);
  TextBuilder out = runtime.builder();
  append_titled(out, text, [](std::int32_t c) {
    const bool separates =
        c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos;
    return !separates && !is_space(c);
  });
  return runtime.text(std::move(out), text.markup);
}

Value indent(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("indent", {"width", "first", "blank"});
  require_defined(self);
  const Text& text = text_argument(&self, "indent");
  const Text* written = bound[0] ? bound[0]->text() : nullptr;
  constexpr Int kMaxIndent = 256;
  const Int width = written ? 0 : std::clamp(int_argument(bound[0], 4), Int{0}, kMaxIndent);
  const std::string indentation =
      written ? written->bytes : std::string(static_cast<std::size_t>(width), ' ');
  const bool indents_blank = flag_argument(bound[2], false);
  std::vector<TextRange> lines = line_ranges(text.bytes);
  // A line break at the end opens one more line.
  if (lines.empty() || lines.back().end < text.bytes.size())
    lines.push_back({text.bytes.size(), text.bytes.size()});
  runtime.charge(lines.size() + text.bytes.size() / 16);
  TextBuilder out = runtime.builder();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    const bool indented =
        i == 0 ? flag_argument(bound[1], false) : indents_blank || lines[i].begin < lines[i].end;
    if (indented) out.append(indentation);
    out.append(text, lines[i].begin, lines[i].end);
  }
  return runtime.text(std::move(out));
}

Value escape(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("escape", {});
  if (self.text() && self.text()->markup) return self;
  const Value text = to_text(runtime, self);
  TextBuilder out = runtime.builder();
  append_escaped(out, *text.text());
  return runtime.text(std::move(out), true);
}

Value safe(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("safe", {});
  TextBuilder out = runtime.builder();
  append_text(runtime, out, self);
  return runtime.text(std::move(out), true);
}

Value format(Runtime& runtime, const Value& self, const Args& args) {
  if (!args.keyword.empty()) {
    if (!args.positional.empty()) throw Failure("format() takes positions or names, not both");
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [name, value] : args.keyword) items.emplace_back(runtime.text(name), value);
    return percent_format(runtime, *to_text(runtime, self).text(), runtime.dict(std::move(items)));
  }
  const Value text = to_text(runtime, self);
  return percent_format(runtime, *text.text(), runtime.tuple(args.positional));
}

constexpr BuiltinEntry kTextFilters[] = {
    {"trim", trim},     {"upper", upper},   {"lower", lower},     {"capitalize", capitalize},
    {"title", title},   {"center", center}, {"replace", replace}, {"indent", indent},
    {"escape", escape}, {"e", escape},      {"safe", safe},       {"format", format}};
}  // namespace

Builtin find_text_filter(std::string_view name) { return find_builtin(kTextFilters, name); }

}  // namespace fasteep::jinja
