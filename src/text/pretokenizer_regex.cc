#include "text/pretokenizer_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "base/check.h"

namespace fasteep {
namespace {

constexpr size_t kMaxPatternBytes = 16384;  // the longest pattern in use has about 1000
// Backtracking steps for one match. The known patterns take a few per byte of the match, so that
// 1 MB of blanks fits; a pattern that explodes ends in a fraction of a second.
constexpr uint32_t kMatchLimit = 5'000'000;
constexpr size_t kJitStackBytes = 32 * 1024, kMaxJitStackBytes = 4 * 1024 * 1024;

// What \s means in Oniguruma: the property White_Space. PCRE2's own \s also has U+180E.
constexpr std::string_view kSpaces =
    "\\x{09}-\\x{0D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"
    "\\x{205F}\\x{3000}";
constexpr std::string_view kNonSpaces =
    "\\x{00}-\\x{08}\\x{0E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}"
    "\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}"
    "\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}";

bool is_ascii_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  for (std::string_view prefix : prefixes) {
    if (text.starts_with(prefix)) return true;
  }
  return false;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      bool is_known = pattern_[at_] == '\\' ? take_escape() : in_class_ ? take_in_class() : take();
      if (!is_known) {
        return invalid_input("the regex \"{}\" has an unsupported construct at \"{}\"", pattern_,
                             pattern_.substr(at_, 8));
      }
    }
    return std::move(out_);
  }

 private:
  std::string_view rest() const { return pattern_.substr(at_); }

  bool copy(size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
    return true;
  }

  bool put(std::string_view replacement, size_t bytes_read) {
    out_ += replacement;
    at_ += bytes_read;
    return true;
  }

  bool take_space_class(bool negated) {
    if (in_class_) return put(negated ? kNonSpaces : kSpaces, 2);
    out_ += negated ? "[^" : "[";
    put(kSpaces, 2);
    out_ += ']';
    return true;
  }

  bool take_braced() {  // \p{L}, \P{N}, \x{1F600}
    size_t close = rest().find('}');
    if (rest().size() < 4 || rest()[2] != '{' || close == std::string_view::npos) return false;
    return copy(close + 1);
  }

  bool take_escape() {
    if (rest().size() < 2) return false;
    char c = rest()[1];
    if (c == 's' || c == 'S') return take_space_class(c == 'S');
    if (c == 'p' || c == 'P' || c == 'x') return take_braced();
    if (std::string_view("dDrntf").find(c) != std::string_view::npos) return copy(2);
    if (!in_class_ && (c == 'A' || c == 'z')) return copy(2);
    if (is_ascii_alnum(c)) return false;  // \w, \b, \h, \v, \1 ... mean something else
    return static_cast<unsigned char>(c) < 0x80 ? copy(2) : put("", 1);
  }

  bool take_in_class() {
    char c = rest()[0];
    if (c == '[' || rest().starts_with("&&")) return false;  // nested classes, intersections
    if (c == ']') in_class_ = false;
    return copy(1);
  }

  bool take() {
    switch (rest()[0]) {
      case '[':
        return take_class_start();
      case '(':
        return take_group_start();
      case '{':
        return rest().starts_with("{,") ? put("{0,", 2) : copy(1);
      case '}':
        return !rest().starts_with("}+") && copy(1);  // possessive in PCRE2, not in Oniguruma
      default:
        return copy(1);
    }
  }

  bool take_class_start() {
    size_t head = rest().starts_with("[^") ? 2 : 1;
    if (rest().substr(head).starts_with("]")) return false;
    in_class_ = true;
    return copy(head);
  }

  bool take_group_start() {
    if (rest().starts_with("(*")) return false;
    if (!rest().starts_with("(?")) return copy(1);
    if (!starts_with_any(rest(), {"(?:", "(?!", "(?=", "(?<!", "(?<=", "(?>", "(?i:", "(?-i:"})) {
      return false;
    }
    return copy(2);
  }

  std::string_view pattern_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 128> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// What matching writes to; one for each thread, because a match needs it exclusively.
struct MatchScratch {
  MatchScratch()
      : data(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kJitStackBytes, kMaxJitStackBytes, nullptr)) {
    CHECK(data != nullptr && context != nullptr, "out of memory for regex matching");
    pcre2_set_match_limit(context, kMatchLimit);
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);  // null: no JIT here
  }
  ~MatchScratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

MatchScratch& scratch() {
  thread_local MatchScratch scratch;
  return scratch;
}

size_t character_bytes(char lead) {
  auto value = static_cast<unsigned char>(lead);
  return value < 0x80 ? 1 : value < 0xE0 ? 2 : value < 0xF0 ? 3 : 4;
}

}  // namespace

Result<std::string> translate_oniguruma(std::string_view pattern) {
  // `\s+$` looks at every blank of a run from every blank of it. A leftmost match can begin only
  // where the run begins, and saying so makes it linear.
  if (pattern == "\\s+$") {
    FASTEEP_TRY(std::string plain, Translator(pattern).run());
    return "(?<![" + std::string(kSpaces) + "])" + plain;
  }
  return Translator(pattern).run();
}

void SplitRegex::FreeCode::operator()(void* code) const {
  pcre2_code_free(static_cast<pcre2_code*>(code));
}

Result<SplitRegex> SplitRegex::compile(std::string_view oniguruma_pattern) {
  if (oniguruma_pattern.size() > kMaxPatternBytes) {
    return invalid_input("a regex of {} bytes is longer than {}", oniguruma_pattern.size(),
                         kMaxPatternBytes);
  }
  FASTEEP_TRY(std::string pattern, translate_oniguruma(oniguruma_pattern));
  return compile_pcre2(std::move(pattern));
}

Result<SplitRegex> SplitRegex::literal(std::string_view text) {
  if (text.empty()) return invalid_input("a split pattern is empty");
  std::string pattern;
  for (char c : text) {
    bool needs_escape = static_cast<unsigned char>(c) < 0x80 && !is_ascii_alnum(c);
    if (needs_escape) pattern += '\\';
    pattern += c;
  }
  return compile_pcre2(std::move(pattern));
}

Result<SplitRegex> SplitRegex::compile_pcre2(std::string pattern) {
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  CHECK(context != nullptr, "out of memory for a regex");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Oniguruma's Ruby syntax has ^ and $ match at every line.
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   kOptions, &error, &offset, context.get());
  if (code == nullptr) {
    return invalid_input("the regex \"{}\" does not compile: {} at byte {}", pattern,
                         error_text(error), offset);
  }
  // A failure is no error: pcre2_match() then interprets the pattern, with the same answers.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return SplitRegex(Code(code), std::move(pattern));
}

Result<void> SplitRegex::find_all(std::string_view valid_utf8,
                                  std::vector<TextRange>& matches) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(valid_utf8.data());
  MatchScratch& memory = scratch();
  size_t from = 0;
  bool matched_before = false;
  while (from <= valid_utf8.size()) {
    int count = pcre2_match(code, subject, valid_utf8.size(), from, PCRE2_NO_UTF_CHECK, memory.data,
                            memory.context);
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0) {
      return invalid_input("the regex \"{}\" fails on this text: {}", pattern_, error_text(count));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(memory.data);
    TextRange match{range[0], range[1]};
    // An empty match right behind the one before is not a match; search on from the next character.
    if (match.size() == 0 && matched_before && match.end == matches.back().end) {
      from =
          match.end + (match.end < valid_utf8.size() ? character_bytes(valid_utf8[match.end]) : 1);
      continue;
    }
    matches.push_back(match);
    matched_before = true;
    from = match.end;
  }
  return {};
}

}  // namespace fasteep
