#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/check.h"
#include "text/unicode.h"

namespace fasteep {
namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Appends the full decomposition of one code point; the longest has 18 code points.
void append_decomposition(CodePoints& out, char32_t c, utf8proc_option_t options) {
  if (c < 0x80) {
    out.push_back(static_cast<utf8proc_int32_t>(c));
    return;
  }
  utf8proc_int32_t buffer[32];
  int boundary_class = 0;
  utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer,
                                                   std::size(buffer), options, &boundary_class);
  CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(std::size(buffer)),
        "decomposition of U+{:04X} gave {}", static_cast<uint32_t>(c), count);
  out.insert(out.end(), buffer, buffer + count);
}

// The canonical order. The library's own sort is quadratic in the length of a run of marks.
void sort_marks(CodePoints& text) {
  auto is_starter = [](utf8proc_int32_t c) { return c < 0x300 || combining_class(c) == 0; };
  auto by_class = [](utf8proc_int32_t a, utf8proc_int32_t b) {
    return combining_class(a) < combining_class(b);
  };
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if_not(begin, text.end(), is_starter);
    auto end = std::find_if(begin, text.end(), is_starter);
    std::stable_sort(begin, end, by_class);
    begin = end;
  }
}

bool is_normal_already(std::string_view text, UnicodeForm form) {
  // Below U+0300 every character is its own NFC; the other forms change some from U+00A0 on.
  uint8_t limit = form == UnicodeForm::kNfc ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [&](char byte) {
    auto value = static_cast<uint8_t>(byte);
    return value < limit;
  });
}

// A cut before such a character does not change the normal form: it never joins what precedes it.
bool starts_afresh(char32_t c) {
  bool is_joining_jamo = (c >= 0x1160 && c <= 0x11FF);  // Hangul vowels and final consonants
  return !is_mark(c) && !is_joining_jamo && combining_class(static_cast<utf8proc_int32_t>(c)) == 0;
}

bool can_cut(std::string_view text, size_t position) {
  if (position == 0 || position >= text.size()) return true;
  if ((static_cast<uint8_t>(text[position]) & 0xC0) == 0x80) return false;
  return starts_afresh(next_code_point(text, position));
}

// The ranges' edges, moved outwards to places where the text can be cut; sorted.
std::vector<size_t> cut_at_edges(std::string_view text, std::vector<TextRange>& ranges) {
  std::vector<size_t> cuts;
  for (TextRange& range : ranges) {
    while (!can_cut(text, range.begin)) --range.begin;
    while (!can_cut(text, range.end)) ++range.end;
    cuts.push_back(range.begin);
    cuts.push_back(range.end);
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

// Moves every edge that stands at old_edges[i] to new_edges[i].
void move_edges(std::vector<TextRange>& ranges, std::span<const size_t> old_edges,
                std::span<const size_t> new_edges) {
  auto moved = [&](size_t edge) {
    auto found = std::lower_bound(old_edges.begin(), old_edges.end(), edge);
    return new_edges[static_cast<size_t>(found - old_edges.begin())];
  };
  for (TextRange& range : ranges) range = {moved(range.begin), moved(range.end)};
}

}  // namespace

std::string unicode_normalize(std::string_view valid_utf8, UnicodeForm form) {
  if (is_normal_already(valid_utf8, form)) return std::string(valid_utf8);
  bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  bool compose = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  CodePoints text;
  text.reserve(valid_utf8.size());
  for (size_t i = 0; i < valid_utf8.size();) {
    append_decomposition(text, next_code_point(valid_utf8, i),
                         static_cast<utf8proc_option_t>(options));
  }
  sort_marks(text);
  if (compose) {
    utf8proc_ssize_t length = utf8proc_normalize_utf32(
        text.data(), static_cast<utf8proc_ssize_t>(text.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    CHECK(length >= 0, "composition failed: {}", length);
    text.resize(static_cast<size_t>(length));
  }
  std::string out;
  out.reserve(valid_utf8.size());
  for (utf8proc_int32_t c : text) append_utf8(out, static_cast<char32_t>(c));
  return out;
}

Result<Normalizer> Normalizer::from_json(const Json* description) {
  Normalizer normalizer;
  if (description != nullptr) {
    Result<void> added = normalizer.add(*description);
    if (!added) return added.error().with("normalizer");
  }
  return normalizer;
}

Result<void> Normalizer::add(const Json& description) {
  FASTEEP_TRY(std::string type, required_string(description, "type"));
  if (type == "Sequence") {
    FASTEEP_TRY(const Json* parts, required_array(description, "normalizers"));
    for (const Json& part : *parts) FASTEEP_TRY_VOID(add(part));
  } else if (type == "NFC") {
    steps_.emplace_back(UnicodeForm::kNfc);
  } else if (type == "NFD") {
    steps_.emplace_back(UnicodeForm::kNfd);
  } else if (type == "NFKC") {
    steps_.emplace_back(UnicodeForm::kNfkc);
  } else if (type == "NFKD") {
    steps_.emplace_back(UnicodeForm::kNfkd);
  } else if (type == "Prepend") {
    FASTEEP_TRY(std::string text, required_string(description, "prepend"));
    steps_.emplace_back(Prepend{std::move(text)});
  } else if (type == "Replace") {
    const Json* pattern = find_field(description, "pattern");
    if (pattern == nullptr || find_field(*pattern, "String") == nullptr) {
      return invalid_input("type Replace is supported with a String pattern only");
    }
    FASTEEP_TRY(std::string from, required_string(*pattern, "String"));
    FASTEEP_TRY(std::string to, required_string(description, "content"));
    if (from.empty()) return invalid_input("type Replace has an empty pattern");
    steps_.emplace_back(Replace{std::move(from), std::move(to)});
  } else {
    return invalid_input(
        "type \"{}\" is not supported (known: NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence)",
        type);
  }
  return {};
}

std::string Normalizer::apply(std::string text, std::vector<TextRange>& ranges) const {
  for (const Step& step : steps_) {
    text = std::visit([&](const auto& s) { return run(s, std::move(text), ranges); }, step);
  }
  return text;
}

std::string Normalizer::run(UnicodeForm form, std::string text, std::vector<TextRange>& ranges) {
  if (is_normal_already(text, form)) return text;
  std::vector<size_t> cuts = cut_at_edges(text, ranges);
  std::vector<size_t> moved;
  std::string out;
  size_t done = 0;
  for (size_t cut : cuts) {
    out += unicode_normalize(std::string_view(text).substr(done, cut - done), form);
    done = cut;
    moved.push_back(out.size());
  }
  out += unicode_normalize(std::string_view(text).substr(done), form);
  move_edges(ranges, cuts, moved);
  return out;
}

std::string Normalizer::run(const Prepend& step, std::string text, std::vector<TextRange>& ranges) {
  if (text.empty()) return text;
  for (TextRange& range : ranges) {
    range.begin += step.text.size();
    range.end += step.text.size();
  }
  return step.text + text;
}

std::string Normalizer::run(const Replace& step, std::string text, std::vector<TextRange>& ranges) {
  std::string out;
  size_t done = 0;
  size_t begin_index = 0, end_index = 0;  // the first range whose begin (end) is not yet moved
  // Moves edges in text[done, until), which the output holds from out.size() on. An edge inside a
  // match moves to the match's outer side.
  auto move_until = [&](size_t until, bool is_match) {
    for (; begin_index < ranges.size() && ranges[begin_index].begin < until; ++begin_index) {
      size_t inside = is_match ? 0 : ranges[begin_index].begin - done;
      ranges[begin_index].begin = out.size() + inside;
    }
    for (; end_index < ranges.size() && ranges[end_index].end <= until; ++end_index) {
      size_t inside = is_match ? step.content.size() : ranges[end_index].end - done;
      ranges[end_index].end = out.size() + inside;
    }
  };
  for (size_t at = text.find(step.pattern); at != std::string::npos;
       at = text.find(step.pattern, done)) {
    move_until(at, false);
    out.append(text, done, at - done);
    done = at;
    move_until(at + step.pattern.size(), true);
    out += step.content;
    done = at + step.pattern.size();
  }
  move_until(text.size() + 1, false);
  out.append(text, done);
  return out;
}

}  // namespace fasteep
