#include <charconv>
#include <cmath>

#include "text/jinja_ast.h"
#include "text/jinja_format.h"

namespace fasteep::jinja {

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
  const std::string scientific(buffer, end.ptr);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return scientific;
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed);
  std::string text(buffer, fixed.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

namespace {
std::string escaped_character(std::int32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (c < 0x100) return fmt::format("\\x{:02x}", c);
  return c < 0x10000 ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c);
}

void append_quoted(Runtime& runtime, TextBuilder& out, const Text& text) {
  const std::string& bytes = text.bytes;
  runtime.charge(bytes.size() / 16);
  const bool has_single = bytes.find('\'') != std::string::npos;
  const char quote = has_single && bytes.find('"') == std::string::npos ? '"' : '\'';
  out.fill(1, quote);
  for (std::size_t at = 0; at < bytes.size();) {
    const Character c = character_at(bytes, at);
    if (c.code_point == '\\' || c.code_point == quote) {
      out.append("\\");
      out.append(text, at, at + 1);
    } else if (is_printable(c.code_point)) {
      out.append(text, at, at + c.size_bytes);
    } else {
      out.append_marked(escaped_character(c.code_point), is_input_at(text, at));
    }
    at += c.size_bytes;
  }
  out.fill(1, quote);
}

void append_list(Runtime& runtime, TextBuilder& out, const List& list) {
  const bool tuple = list.kind == ListKind::kTuple;
  out.append(tuple ? "(" : "[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(runtime, out, list.items[i]);
  }
  if (tuple && list.items.size() == 1) out.append(",");
  out.append(tuple ? ")" : "]");
}

void append_dict(Runtime& runtime, TextBuilder& out, const Dict& dict) {
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : dict.items) {
    if (!first) out.append(", ");
    first = false;
    append_repr(runtime, out, key);
    out.append(": ");
    append_repr(runtime, out, value);
  }
  out.append("}");
}

// What nobody prints on purpose: objects of the run itself, named by their type.
std::string object_name(const Value& value) {
  if (value.list()) return "<generator object>";
  if (const Macro* macro = value.macro()) return fmt::format("<Macro '{}'>", macro->node->name);
  if (const Bound* bound = value.bound()) return fmt::format("<function {}>", bound->name);
  return value.loop() ? "<LoopContext>" : "<Namespace>";
}
}  // namespace

void append_repr(Runtime& runtime, TextBuilder& out, const Value& value) {
  runtime.charge();
  if (value.is_undefined()) return out.append("Undefined");
  if (value.is_none()) return out.append("None");
  if (const bool* truth = value.get<bool>()) return out.append(*truth ? "True" : "False");
  if (const Int* number = value.get<Int>()) return out.append(fmt::format("{}", *number));
  if (const double* number = value.get<double>()) return out.append(float_repr(*number));
  if (const Text* text = value.text()) {
    if (text->markup) out.append("Markup(");
    append_quoted(runtime, out, *text);
    if (text->markup) out.append(")");
    return;
  }
  if (const Dict* dict = value.dict()) return append_dict(runtime, out, *dict);
  const List* list = value.list();
  if (list && list->kind != ListKind::kLazy) return append_list(runtime, out, *list);
  out.append(object_name(value));
}

void append_text(Runtime& runtime, TextBuilder& out, const Value& value) {
  if (const Text* text = value.text()) {
    runtime.charge(text->bytes.size() / 64);
    return out.append(*text);
  }
  if (!value.is_undefined()) append_repr(runtime, out, value);
}

Value to_text(Runtime& runtime, const Value& value) {
  if (value.text()) return value;
  TextBuilder out = runtime.builder();
  append_text(runtime, out, value);
  return runtime.text(std::move(out));
}

void append_escaped(TextBuilder& out, const Text& text) {
  for (std::size_t at = 0; at < text.bytes.size(); ++at) {
    const char byte = text.bytes[at];
    const std::string_view entity = byte == '&'    ? "&amp;"
                                    : byte == '<'  ? "&lt;"
                                    : byte == '>'  ? "&gt;"
                                    : byte == '\'' ? "&#39;"
                                    : byte == '"'  ? "&#34;"
                                                   : std::string_view();
    if (entity.empty()) {
      out.append(text, at, at + 1);
    } else {
      out.append_marked(entity, is_input_at(text, at));
    }
  }
}

}  // namespace fasteep::jinja
