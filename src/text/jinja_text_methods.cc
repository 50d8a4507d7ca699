// Methods of strings. `self` is always a text.
#include <utf8proc.h>

#include <algorithm>

#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_ops.h"

namespace fasteep::jinja {

bool flag_argument(const Value* argument, bool missing) {
  return argument ? argument->truth() : missing;
}

Int int_argument(const Value* argument, Int missing) {
  if (!argument || argument->is_none()) return missing;
  require_defined(*argument);
  if (!argument->is_integral())
    throw Failure(
        fmt::format("'{}' object cannot be interpreted as an integer", argument->type_name()));
  return argument->as_int();
}

const Text& text_argument(const Value* argument, std::string_view function) {
  const Text* text = argument ? argument->text() : nullptr;
  if (!text)
    throw Failure(fmt::format("{}() needs a string, got {}", function,
                              argument ? argument->type_name() : "nothing"));
  return *text;
}

std::vector<TextRange> line_ranges(std::string_view bytes) {
  std::vector<TextRange> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const Character c = character_at(bytes, at);
    const std::int32_t p = c.code_point;
    const std::size_t end = at;
    at += c.size_bytes;
    if (p == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    if ((p >= 0x0a && p <= 0x0d) || (p >= 0x1c && p <= 0x1e) || p == 0x85 || p == 0x2028 ||
        p == 0x2029) {
      lines.push_back({begin, end});
      begin = at;
    }
  }
  if (begin < bytes.size()) lines.push_back({begin, bytes.size()});
  return lines;
}

namespace {
Value strip(Runtime& runtime, const Value& self, const Args& args, bool left, bool right) {
  const Value* set = args.bind("strip", {"chars"})[0];
  const Text& text = *self.text();
  runtime.charge(text.bytes.size() / 64);
  if (!set || set->is_none())
    return runtime.subtext(text, strip_range(text.bytes, "", left, right));
  const std::string& characters = text_argument(set, "strip").bytes;
  if (characters.empty()) return self;
  return runtime.subtext(text, strip_range(text.bytes, characters, left, right));
}
Value strip_both(Runtime& r, const Value& s, const Args& a) { return strip(r, s, a, true, true); }
Value lstrip(Runtime& r, const Value& s, const Args& a) { return strip(r, s, a, true, false); }
Value rstrip(Runtime& r, const Value& s, const Args& a) { return strip(r, s, a, false, true); }

// Runs of what is not white space, at most max_splits of them and then the rest.
std::vector<TextRange> split_spaces(std::string_view bytes, std::size_t max_splits) {
  std::vector<TextRange> parts;
  std::size_t at = 0;
  const auto skip = [&](bool spaces) {
    while (at < bytes.size()) {
      const Character c = character_at(bytes, at);
      if (is_space(c.code_point) != spaces) return;
      at += c.size_bytes;
    }
  };
  for (skip(true); at < bytes.size(); skip(true)) {
    const std::size_t begin = at;
    if (parts.size() == max_splits) {
      parts.push_back({begin, strip_range(bytes, "", false, true).end});
      return parts;
    }
    skip(false);
    parts.push_back({begin, at});
  }
  return parts;
}

std::vector<TextRange> split_at(std::string_view bytes, std::string_view separator,
                                std::size_t max_splits) {
  std::vector<TextRange> parts;
  std::size_t begin = 0;
  while (parts.size() < max_splits) {
    const std::size_t found = bytes.find(separator, begin);
    if (found == std::string_view::npos) break;
    parts.push_back({begin, found});
    begin = found + separator.size();
  }
  parts.push_back({begin, bytes.size()});
  return parts;
}

std::vector<TextRange> split_at_from_right(std::string_view bytes, std::string_view separator,
                                           std::size_t max_splits) {
  std::vector<TextRange> parts;
  std::size_t end = bytes.size();
  while (parts.size() < max_splits) {
    const std::size_t found = bytes.substr(0, end).rfind(separator);
    if (found == std::string_view::npos) break;
    parts.push_back({found + separator.size(), end});
    end = found;
  }
  parts.push_back({0, end});
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Value parts_list(Runtime& runtime, const Text& text, const std::vector<TextRange>& parts,
                 ListKind kind = ListKind::kList) {
  std::vector<Value> items;
  for (const TextRange& part : parts) items.push_back(runtime.subtext(text, part));
  return runtime.list(std::move(items), kind);
}

Value split_from(Runtime& runtime, const Value& self, const Args& args, bool from_right) {
  const auto bound = args.bind("split", {"sep", "maxsplit"});
  const Text& text = *self.text();
  runtime.charge(text.bytes.size() / 16);
  const Int limit = int_argument(bound[1], -1);
  const auto max_splits =
      limit < 0 ? SIZE_MAX : static_cast<std::size_t>(std::min(limit, Int{1} << 40));
  if (!bound[0] || bound[0]->is_none()) {
    if (from_right && limit >= 0) throw Failure("rsplit() with a limit needs a separator");
    return parts_list(runtime, text, split_spaces(text.bytes, max_splits));
  }
  const std::string& separator = text_argument(bound[0], "split").bytes;
  if (separator.empty()) throw Failure("empty separator");
  return parts_list(runtime, text,
                    from_right ? split_at_from_right(text.bytes, separator, max_splits)
                               : split_at(text.bytes, separator, max_splits));
}
Value split(Runtime& r, const Value& s, const Args& a) { return split_from(r, s, a, false); }
Value rsplit(Runtime& r, const Value& s, const Args& a) { return split_from(r, s, a, true); }

Value splitlines(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("splitlines", {});
  runtime.charge(self.text()->bytes.size() / 16);
  return parts_list(runtime, *self.text(), line_ranges(self.text()->bytes));
}

Value partition_at(Runtime& runtime, const Value& self, const Args& args, bool from_right) {
  const Text& text = *self.text();
  const std::string& separator =
      text_argument(args.bind("partition", {"sep"})[0], "partition").bytes;
  if (separator.empty()) throw Failure("empty separator");
  runtime.charge(text.bytes.size() / 64);
  const std::size_t size = text.bytes.size();
  const std::size_t at = from_right ? text.bytes.rfind(separator) : text.bytes.find(separator);
  if (at == std::string::npos) {
    const std::size_t middle = from_right ? 0 : size;
    return parts_list(runtime, text, {{0, middle}, {middle, middle}, {middle, size}},
                      ListKind::kTuple);
  }
  const std::size_t after = at + separator.size();
  return parts_list(runtime, text, {{0, at}, {at, after}, {after, size}}, ListKind::kTuple);
}
Value partition(Runtime& r, const Value& s, const Args& a) { return partition_at(r, s, a, false); }
Value rpartition(Runtime& r, const Value& s, const Args& a) { return partition_at(r, s, a, true); }

// Whether `matches` holds for the text, or one text of a tuple, in the one argument.
template <class Matches>
bool any_of_texts(const Args& args, std::string_view function, Matches matches) {
  const Value* argument = args.bind(function, {"affix"})[0];
  const List* tuple = argument ? argument->list() : nullptr;
  if (!tuple) return matches(text_argument(argument, function).bytes);
  return std::any_of(tuple->items.begin(), tuple->items.end(), [&](const Value& item) {
    return matches(text_argument(&item, function).bytes);
  });
}

Value startswith(Runtime& runtime, const Value& self, const Args& args) {
  runtime.charge();
  return any_of_texts(args, "startswith", [&](const std::string& affix) {
    return self.text()->bytes.starts_with(affix);
  });
}

Value endswith(Runtime& runtime, const Value& self, const Args& args) {
  runtime.charge();
  return any_of_texts(args, "endswith", [&](const std::string& affix) {
    return self.text()->bytes.ends_with(affix);
  });
}

Value removeprefix(Runtime& runtime, const Value& self, const Args& args) {
  const Text& text = *self.text();
  const auto& prefix =
      text_argument(args.bind("removeprefix", {"prefix"})[0], "removeprefix").bytes;
  if (!text.bytes.starts_with(prefix)) return self;
  return runtime.subtext(text, {prefix.size(), text.bytes.size()});
}

Value removesuffix(Runtime& runtime, const Value& self, const Args& args) {
  const Text& text = *self.text();
  const auto& suffix =
      text_argument(args.bind("removesuffix", {"suffix"})[0], "removesuffix").bytes;
  if (!text.bytes.ends_with(suffix)) return self;
  return runtime.subtext(text, {0, text.bytes.size() - suffix.size()});
}

Value find_from(Runtime& runtime, const Value& self, const Args& args, bool from_right) {
  const std::string& bytes = self.text()->bytes;
  const auto& part = text_argument(args.bind("find", {"sub"})[0], "find").bytes;
  runtime.charge(bytes.size() / 64);
  const std::size_t at = from_right ? bytes.rfind(part) : bytes.find(part);
  if (at == std::string::npos) return -1;
  return count_characters(std::string_view(bytes).substr(0, at));
}
Value find(Runtime& r, const Value& s, const Args& a) { return find_from(r, s, a, false); }
Value rfind(Runtime& r, const Value& s, const Args& a) { return find_from(r, s, a, true); }

Value index(Runtime& runtime, const Value& self, const Args& args) {
  Value found = find(runtime, self, args);
  if (found.as_int() < 0) throw Failure("substring not found");
  return found;
}

Value count(Runtime& runtime, const Value& self, const Args& args) {
  const std::string& bytes = self.text()->bytes;
  const auto& part = text_argument(args.bind("count", {"sub"})[0], "count").bytes;
  runtime.charge(bytes.size() / 16);
  if (part.empty()) return count_characters(bytes) + 1;
  return split_at(bytes, part, SIZE_MAX).size() - 1;
}

Value cased(Runtime& runtime, const Value& self, Case to) {
  const Text& text = *self.text();
  runtime.charge(text.bytes.size() / 16);
  TextBuilder out = runtime.builder();
  append_cased(out, text, {0, text.bytes.size()}, to);
  return runtime.text(std::move(out), text.markup);
}
Value upper(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("upper", {});
  return cased(runtime, self, Case::kUpper);
}
Value lower(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("lower", {});
  return cased(runtime, self, Case::kLower);
}

Value capitalize(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("capitalize", {});
  const Text& text = *self.text();
  runtime.charge(text.bytes.size() / 16);
  const std::size_t first = text.bytes.empty() ? 0 : character_at(text.bytes, 0).size_bytes;
  TextBuilder out = runtime.builder();
  append_cased(out, text, {0, first}, Case::kUpper);
  append_cased(out, text, {first, text.bytes.size()}, Case::kLower);
  return runtime.text(std::move(out), text.markup);
}

bool is_category(std::int32_t c, std::initializer_list<utf8proc_category_t> categories) {
  return std::find(categories.begin(), categories.end(), utf8proc_category(c)) != categories.end();
}
bool is_upper(std::int32_t c) {
  return is_category(c, {UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LT});
}
bool is_lower(std::int32_t c) { return is_category(c, {UTF8PROC_CATEGORY_LL}); }
bool is_cased(std::int32_t c) { return is_upper(c) || is_lower(c); }
bool is_digit(std::int32_t c) { return is_category(c, {UTF8PROC_CATEGORY_ND}); }
bool is_alpha(std::int32_t c) {
  return is_cased(c) || is_category(c, {UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO});
}
bool is_alnum(std::int32_t c) { return is_alpha(c) || is_digit(c); }

Value title(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("title", {});
  const Text& text = *self.text();
  runtime.charge(text.bytes.size() / 16);
  TextBuilder out = runtime.builder();
  append_titled(out, text, is_cased);
  return runtime.text(std::move(out), text.markup);
}

// Whether there is a character, and all are of the class.
template <bool (*kIsOne)(std::int32_t)>
Value all_are(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("isdigit() and the like", {});
  const std::string& bytes = self.text()->bytes;
  runtime.charge(bytes.size() / 16);
  for (std::size_t at = 0; at < bytes.size();) {
    const Character c = character_at(bytes, at);
    if (!kIsOne(c.code_point)) return false;
    at += c.size_bytes;
  }
  return !bytes.empty();
}

// Whether there is a cased character, and all such are of the class.
template <bool (*kIsOne)(std::int32_t)>
Value cased_are(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("islower() and isupper()", {});
  const std::string& bytes = self.text()->bytes;
  runtime.charge(bytes.size() / 16);
  bool any = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const Character c = character_at(bytes, at);
    if (is_cased(c.code_point) && !kIsOne(c.code_point)) return false;
    any |= is_cased(c.code_point);
    at += c.size_bytes;
  }
  return any;
}

Value replace(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("replace", {"old", "new", "count"});
  const Text& text = *self.text();
  const std::string& old = text_argument(bound[0], "replace").bytes;
  const Text& replacement = text_argument(bound[1], "replace");
  Int left = int_argument(bound[2], -1);
  runtime.charge(text.bytes.size() / 16);
  TextBuilder out = runtime.builder();
  std::size_t at = 0;
  while (at <= text.bytes.size() && left-- != 0) {
    const std::size_t found = text.bytes.find(old, at);
    if (found == std::string::npos) break;
    runtime.charge();
    out.append(text, at, found);
    out.append(replacement);
    at = found + old.size();
    if (!old.empty()) continue;
    if (found == text.bytes.size()) break;  // an empty `old` stands between all characters
    at += character_at(text.bytes, found).size_bytes;
    out.append(text, found, at);
  }
  if (at < text.bytes.size()) out.append(text, at, text.bytes.size());
  return runtime.text(std::move(out), text.markup);
}

Value join(Runtime& runtime, const Value& self, const Args& args) {
  const Value* argument = args.bind("join", {"iterable"})[0];
  if (!argument) throw Failure("join() needs a list");
  TextBuilder out = runtime.builder();
  const auto list = iterate(runtime, *argument);
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const Value& item = list->items[i];
    if (!item.text())
      throw Failure(
          fmt::format("sequence item {}: expected str instance, {} found", i, item.type_name()));
    runtime.charge();
    if (i > 0) out.append(*self.text());
    out.append(*item.text());
  }
  return runtime.text(std::move(out));
}

Value format(Runtime& runtime, const Value& self, const Args& args) {
  return brace_format(runtime, *self.text(), args);
}

enum class Side { kLeft, kRight, kBoth };
Value padded(Runtime& runtime, const Value& self, const Args& args, Side text_side) {
  const auto bound = args.bind("ljust", {"width", "fillchar"});
  const Text& text = *self.text();
  const std::string_view fill =
      bound[1] ? text_argument(bound[1], "ljust").bytes : std::string_view(" ");
  if (fill.size() != 1) throw Failure("the fill character must be one ASCII character");
  const Int asked = std::clamp(int_argument(bound[0], 0), Int{0}, Int{1} << 40);
  const auto width = static_cast<std::size_t>(asked);
  const std::size_t padding = width - std::min(width, count_characters(text.bytes));
  const std::size_t left = text_side == Side::kLeft    ? 0
                           : text_side == Side::kRight ? padding
                                                       : padding / 2 + (padding & width & 1);
  TextBuilder out = runtime.builder();
  out.fill(left, fill[0]);
  out.append(text);
  out.fill(padding - left, fill[0]);
  return runtime.text(std::move(out));
}
Value ljust(Runtime& r, const Value& s, const Args& a) { return padded(r, s, a, Side::kLeft); }
Value rjust(Runtime& r, const Value& s, const Args& a) { return padded(r, s, a, Side::kRight); }
Value center(Runtime& r, const Value& s, const Args& a) { return padded(r, s, a, Side::kBoth); }

constexpr BuiltinEntry kTextMethods[] = {
    {"strip", strip_both},
    {"lstrip", lstrip},
    {"rstrip", rstrip},
    {"split", split},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"partition", partition},
    {"rpartition", rpartition},
    {"startswith", startswith},
    {"endswith", endswith},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"find", find},
    {"rfind", rfind},
    {"index", index},
    {"count", count},
    {"upper", upper},
    {"lower", lower},
    {"casefold", lower},
    {"capitalize", capitalize},
    {"title", title},
    {"replace", replace},
    {"join", join},
    {"format", format},
    {"ljust", ljust},
    {"rjust", rjust},
    {"center", center},
    {"isdigit", all_are<is_digit>},
    {"isdecimal", all_are<is_digit>},
    {"isnumeric", all_are<is_digit>},
    {"isalpha", all_are<is_alpha>},
    {"isalnum", all_are<is_alnum>},
    {"isspace", all_are<is_space>},
    {"isupper", cased_are<is_upper>},
    {"islower", cased_are<is_lower>},
};
}  // namespace

Builtin find_text_method(std::string_view name) { return find_builtin(kTextMethods, name); }

}  // namespace fasteep::jinja
