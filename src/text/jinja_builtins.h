#pragma once
// The filters, tests, methods and global functions that templates may call.
#include <span>
#include <string_view>

#include "text/jinja_runtime.h"

namespace fasteep::jinja {

struct BuiltinEntry {
  std::string_view name;
  Builtin function;
};

// Null if there is none of that name.
inline Builtin find_builtin(std::span<const BuiltinEntry> entries, std::string_view name) {
  for (const BuiltinEntry& entry : entries) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

Builtin find_filter(std::string_view name);
Builtin find_text_filter(std::string_view name);      // find_filter()'s part about strings
Builtin find_sequence_filter(std::string_view name);  // ... and about lists
Builtin find_test(std::string_view name);
Builtin find_function(std::string_view name);  // range(), namespace(), raise_exception(), ...
Builtin find_text_method(std::string_view name);

// A method of `value`, or an attribute of a namespace or of `loop`: puts it into `found`. Methods
// that would change their object are there, but undefined.
bool find_attribute(Runtime& runtime, const Value& value, std::string_view name, Value& found);

// Helpers for arguments; `argument` may be null: not given.
bool flag_argument(const Value* argument, bool missing);
Int int_argument(const Value* argument, Int missing);
// The text of `argument`; fails, naming `function`, if it is null or no text.
const Text& text_argument(const Value* argument, std::string_view function);

// Lines of `bytes` without their ends, as Python's splitlines().
std::vector<TextRange> line_ranges(std::string_view bytes);

}  // namespace fasteep::jinja
