#include "text/jinja_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/jinja_runtime.h"

namespace fasteep::jinja {

void TextBuilder::reserve_more(std::size_t count) {
  if (count > max_bytes_ - text_.bytes.size())
    throw Failure(fmt::format("the text grows past the limit of {} bytes", max_bytes_));
}

void TextBuilder::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  auto& runs = text_.input_runs;
  if (!runs.empty() && runs.back().end == begin) {
    runs.back().end = end;
  } else {
    runs.push_back({begin, end});
  }
}

void TextBuilder::append_marked(std::string_view bytes, bool from_input) {
  reserve_more(bytes.size());
  if (from_input) mark(size(), size() + bytes.size());
  text_.bytes.append(bytes);
}

void TextBuilder::append(const Text& text, std::size_t begin, std::size_t end) {
  reserve_more(end - begin);
  const auto& runs = text.input_runs;
  auto run = std::lower_bound(runs.begin(), runs.end(), begin,
                              [](const TextRange& r, std::size_t at) { return r.end <= at; });
  for (; run != runs.end() && run->begin < end; ++run) {
    mark(size() + std::max(run->begin, begin) - begin, size() + std::min(run->end, end) - begin);
  }
  text_.bytes.append(text.bytes, begin, end - begin);
}

void TextBuilder::fill(std::size_t count, char byte) {
  reserve_more(count);
  text_.bytes.append(count, byte);
}

bool is_input_at(const Text& text, std::size_t offset) {
  const auto& runs = text.input_runs;
  auto run = std::lower_bound(runs.begin(), runs.end(), offset,
                              [](const TextRange& r, std::size_t at) { return r.end <= at; });
  return run != runs.end() && run->begin <= offset;
}

Character character_at(std::string_view bytes, std::size_t offset) {
  const auto first = static_cast<unsigned char>(bytes[offset]);
  if (first < 0x80) return {first, 1};
  utf8proc_int32_t code_point = 0;
  const auto size =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()) + offset,
                       static_cast<utf8proc_ssize_t>(bytes.size() - offset), &code_point);
  if (size <= 0) return {first, 1};
  return {code_point, static_cast<std::size_t>(size)};
}

std::size_t count_characters(std::string_view bytes) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes.size(); ++count) at += character_at(bytes, at).size_bytes;
  return count;
}

std::vector<std::size_t> character_offsets(std::string_view bytes) {
  std::vector<std::size_t> offsets;
  offsets.reserve(bytes.size() + 1);
  for (std::size_t at = 0; at < bytes.size(); at += character_at(bytes, at).size_bytes) {
    offsets.push_back(at);
  }
  offsets.push_back(bytes.size());
  return offsets;
}

void append_utf8(std::string& out, std::int32_t code_point) {
  utf8proc_uint8_t buffer[4];
  const auto size = utf8proc_encode_char(code_point, buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(size));
}

bool is_valid_utf8(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const Character c = character_at(bytes, at);
    if (c.size_bytes == 1 && c.code_point >= 0x80) return false;
    at += c.size_bytes;
  }
  return true;
}

bool is_space(std::int32_t c) {
  if ((c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20)) return true;
  if (c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a)) return true;
  return c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_printable(std::int32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7f;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

namespace {
bool is_stripped(std::string_view character, std::int32_t code_point, std::string_view set) {
  return set.empty() ? is_space(code_point) : set.find(character) != std::string_view::npos;
}

// Start of the character that ends at `end`.
std::size_t previous_character(std::string_view bytes, std::size_t begin, std::size_t end) {
  std::size_t at = end - 1;
  while (at > begin && end - at < 4 && (static_cast<unsigned char>(bytes[at]) & 0xc0) == 0x80) --at;
  return at + character_at(bytes, at).size_bytes == end ? at : end - 1;
}
}  // namespace

TextRange strip_range(std::string_view bytes, std::string_view set, bool left, bool right) {
  TextRange kept{0, bytes.size()};
  while (left && kept.begin < kept.end) {
    const Character c = character_at(bytes, kept.begin);
    if (!is_stripped(bytes.substr(kept.begin, c.size_bytes), c.code_point, set)) break;
    kept.begin += c.size_bytes;
  }
  while (right && kept.begin < kept.end) {
    const std::size_t at = previous_character(bytes, kept.begin, kept.end);
    const std::string_view character = bytes.substr(at, kept.end - at);
    if (!is_stripped(character, character_at(bytes, at).code_point, set)) break;
    kept.end = at;
  }
  return kept;
}

void append_cased(TextBuilder& out, const Text& text, TextRange range, Case to) {
  for (std::size_t at = range.begin; at < range.end;) {
    const Character c = character_at(text.bytes, at);
    std::string cased;
    if (c.size_bytes == 1 && c.code_point >= 0x80) {
      cased = text.bytes[at];  // not UTF-8
    } else if (to == Case::kUpper && c.code_point == 0xdf) {
      cased = "SS";  // the one common letter whose upper case is two
    } else {
      append_utf8(cased, to == Case::kUpper ? utf8proc_toupper(c.code_point)
                                            : utf8proc_tolower(c.code_point));
    }
    out.append_marked(cased, is_input_at(text, at));
    at += c.size_bytes;
  }
}

void append_titled(TextBuilder& out, const Text& text, bool (*in_word)(std::int32_t code_point)) {
  bool is_inside = false;
  for (std::size_t at = 0; at < text.bytes.size();) {
    const Character c = character_at(text.bytes, at);
    append_cased(out, text, {at, at + c.size_bytes}, is_inside ? Case::kLower : Case::kUpper);
    is_inside = in_word(c.code_point);
    at += c.size_bytes;
  }
}

}  // namespace fasteep::jinja
