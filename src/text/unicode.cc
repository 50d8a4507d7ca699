#include "text/unicode.h"

#include <utf8proc.h>

#include <cstdint>

#include "base/check.h"

namespace fasteep {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// The continuation bytes that a lead byte asks for, and the legal range of the first of them.
struct LeadByte {
  int continuation_bytes = -1;  // -1: not a lead byte
  uint8_t low = 0x80, high = 0xBF;
};

LeadByte classify_lead(uint8_t byte) {
  if (byte < 0x80) return {0};
  if (byte < 0xC2) return {-1};
  if (byte < 0xE0) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};  // below is overlong
  if (byte == 0xED) return {2, 0x80, 0x9F};  // above are surrogates
  if (byte < 0xF0) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};  // below is overlong
  if (byte == 0xF4) return {3, 0x80, 0x8F};  // above is past U+10FFFF
  if (byte < 0xF4) return {3};
  return {-1};
}

void append_replacement(std::string& out, size_t invalid_bytes, Replacement replacement) {
  size_t count = replacement == Replacement::kPerByte ? invalid_bytes : 1;
  for (size_t i = 0; i < count; ++i) out += kReplacementCharacter;
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
  DCHECK(!bytes.empty(), "no bytes to read a character from");
  LeadByte lead = classify_lead(static_cast<uint8_t>(bytes[0]));
  if (lead.continuation_bytes < 0) return {Utf8Step::Kind::kInvalid, 1};
  uint8_t low = lead.low, high = lead.high;
  size_t length = 1;
  for (int i = 0; i < lead.continuation_bytes; ++i, ++length) {
    if (length == bytes.size()) return {Utf8Step::Kind::kIncomplete, length};
    auto byte = static_cast<uint8_t>(bytes[length]);
    if (byte < low || byte > high) return {Utf8Step::Kind::kInvalid, length};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Step::Kind::kValid, length};
}

bool is_valid_utf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    Utf8Step step = utf8_step(bytes.substr(i));
    if (step.kind != Utf8Step::Kind::kValid) return false;
    i += step.length;
  }
  return true;
}

char32_t next_code_point(std::string_view valid_utf8, size_t& position) {
  DCHECK(position < valid_utf8.size(), "read at {} of {} bytes", position, valid_utf8.size());
  auto lead = static_cast<uint8_t>(valid_utf8[position++]);
  if (lead < 0x80) return lead;
  int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  char32_t c = lead & (0x3F >> more);
  for (; more > 0 && position < valid_utf8.size(); --more) {
    c = c << 6 | (static_cast<uint8_t>(valid_utf8[position++]) & 0x3F);
  }
  return c;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

size_t append_complete_text(std::string& out, std::string_view bytes, Replacement replacement) {
  size_t i = 0;
  while (i < bytes.size()) {
    Utf8Step step = utf8_step(bytes.substr(i));
    if (step.kind == Utf8Step::Kind::kIncomplete) break;
    if (step.kind == Utf8Step::Kind::kValid) {
      out += bytes.substr(i, step.length);
    } else {
      append_replacement(out, step.length, replacement);
    }
    i += step.length;
  }
  return i;
}

void append_lossy_text(std::string& out, std::string_view bytes, Replacement replacement) {
  size_t used = append_complete_text(out, bytes, replacement);
  if (used < bytes.size()) append_replacement(out, bytes.size() - used, replacement);
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

bool is_mark(char32_t c) {
  if (c < 0x300) return false;
  utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME;
}

bool is_word(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  utf8proc_category_t kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NL) ||
         kind == UTF8PROC_CATEGORY_PC;
}

}  // namespace fasteep
