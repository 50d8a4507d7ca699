#include "text/jinja_lexer.h"

#include <algorithm>
#include <cstdlib>

#include "text/jinja_runtime.h"

namespace fasteep::jinja {

std::string normalize_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out.push_back('\n');
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

namespace {
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_sign(char c) { return c == '-' || c == '+'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t tag = find_tag(at_);
      if (tag == source_.size()) {
        emit_text(at_, tag, '\0', false);
        at_ = tag;
      } else {
        lex_tag(tag);
      }
    }
    emit(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) {
    throw Failure(fmt::format("line {}: {}", line_at(at_), message));
  }

  int line_at(std::size_t offset) {
    for (; counted_ < offset; ++counted_) line_ += source_[counted_] == '\n';
    return line_;
  }

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool next_is(std::string_view text) const { return source_.substr(at_, text.size()) == text; }

  void emit(TokenKind kind, std::string value) {
    tokens_.push_back({kind, line_at(at_), std::move(value), {}});
  }

  std::size_t find_tag(std::size_t from) const {
    for (std::size_t i = from; i + 1 < source_.size(); ++i) {
      const char second = source_[i + 1];
      if (source_[i] == '{' && (second == '{' || second == '%' || second == '#')) return i;
    }
    return source_.size();
  }

  // Text in front of a tag: `sign` is the tag's, `block` whether lstrip_blocks applies to it.
  void emit_text(std::size_t begin, std::size_t end, char sign, bool block) {
    std::string_view text = source_.substr(begin, end - begin);
    if (sign == '-') {
      text = text.substr(0, strip_range(text, "", false, true).end);
    } else if (sign != '+' && block) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      const bool line_is_ours = line_begin > 0 || at_line_start_;
      const TextRange rest = strip_range(text.substr(line_begin), "", false, true);
      if (line_is_ours && rest.begin == rest.end) text = text.substr(0, line_begin);
    }
    if (!text.empty()) emit(TokenKind::kText, std::string(text));
  }

  void lex_tag(std::size_t tag) {
    const char kind = source_[tag + 1];
    std::size_t inside = tag + 2;
    const char sign = inside < source_.size() && is_sign(source_[inside]) ? source_[inside] : '\0';
    if (sign != '\0') ++inside;
    emit_text(at_, tag, sign, kind != '{');
    at_ = inside;
    if (kind == '#') return skip_comment();
    if (kind == '%' && lex_raw()) return;
    const bool block = kind == '%';
    emit(block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, {});
    while (!lex_tag_end(block)) lex_token();
    emit(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, {});
  }

  // Behind a tag's end: `-` eats all white space, nothing one line break (trim_blocks).
  void finish_tag(char sign, bool trims) {
    const std::size_t before = at_;
    if (sign == '-') {
      skip_spaces();
    } else if (sign != '+' && trims && peek() == '\n') {
      ++at_;
    }
    at_line_start_ = at_ > before && source_[at_ - 1] == '\n';
  }

  void skip_spaces() { at_ += strip_range(source_.substr(at_), "", true, false).begin; }

  void skip_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) fail("a comment is not closed: '#}' is missing");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    finish_tag(sign, true);
  }

  // After "{%": the tag `raw` with everything up to `endraw`, or false.
  bool lex_raw() {
    const std::size_t start = at_;
    if (!read_word("raw") || !(next_is("%}") || next_is("-%}"))) {
      at_ = start;
      return false;
    }
    const char sign = peek();
    at_ += sign == '-' ? 3 : 2;
    finish_tag(sign, false);
    const std::size_t body = at_;
    for (std::size_t tag = source_.find("{%", body); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 2)) {
      if (lex_endraw(body, tag)) return true;
    }
    at_ = start;
    fail("a raw block is not closed: 'endraw' is missing");
  }

  bool lex_endraw(std::size_t body, std::size_t tag) {
    at_ = tag + 2;
    const char sign = is_sign(peek()) ? source_[at_++] : '\0';
    if (!read_word("endraw")) return false;
    const char end_sign = is_sign(peek()) ? source_[at_++] : '\0';
    if (!next_is("%}")) return false;
    at_ += 2;
    emit_text(body, tag, sign, true);
    finish_tag(end_sign, true);
    return true;
  }

  bool read_word(std::string_view word) {
    skip_spaces();
    if (!next_is(word)) return false;
    at_ += word.size();
    skip_spaces();
    return true;
  }

  // At the end of the tag, moves behind it.
  bool lex_tag_end(bool block) {
    skip_spaces();
    if (at_ >= source_.size()) fail(block ? "'%}' is missing" : "'}}' is missing");
    if (!open_.empty()) return false;
    const std::string_view end = block ? "%}" : "}}";
    const char sign = peek();
    if (sign == '-' || (sign == '+' && block)) {
      if (source_.substr(at_ + 1, 2) != end) return false;
      at_ += 3;
    } else {
      if (!next_is(end)) return false;
      at_ += 2;
    }
    finish_tag(sign, block);
    return true;
  }

  void lex_token() {
    const char c = peek();
    if (is_digit(c)) return lex_number();
    if (c == '\'' || c == '"') return lex_string(c);
    if (!is_name_start(c)) return lex_operator();
    const std::size_t start = at_;
    while (is_name_start(peek()) || is_digit(peek())) ++at_;
    emit(TokenKind::kName, std::string(source_.substr(start, at_ - start)));
  }

  void lex_operator() {
    static constexpr std::string_view kOperators[] = {
        "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
    for (std::string_view op : kOperators) {
      if (!next_is(op)) continue;
      if (op == "(" || op == "[" || op == "{") open_.push_back(op[0]);
      if (op == ")" || op == "]" || op == "}") close_bracket(op[0]);
      emit(TokenKind::kOperator, std::string(op));
      at_ += op.size();
      return;
    }
    fail(fmt::format("unexpected character '{}'",
                     source_.substr(at_, character_at(source_, at_).size_bytes)));
  }

  void close_bracket(char bracket) {
    const char opening = bracket == ')' ? '(' : bracket == ']' ? '[' : '{';
    if (open_.empty() || open_.back() != opening) fail(fmt::format("unexpected '{}'", bracket));
    open_.pop_back();
  }

  // Appends digits of `base`, leaving out the underscores between them.
  void read_digits(std::string& digits, int base) {
    const auto is_one = [&](char c) {
      const char lower = static_cast<char>(c | 0x20);
      return base == 16 ? is_digit(c) || (lower >= 'a' && lower <= 'f')
                        : c >= '0' && c < '0' + base;
    };
    while (is_one(peek()) || (peek() == '_' && is_one(peek(1)))) {
      if (peek() != '_') digits.push_back(peek());
      ++at_;
    }
  }

  void lex_number() {
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    const char prefix = peek() == '0' ? static_cast<char>(peek(1) | 0x20) : '\0';
    const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    if (base != 10) at_ += 2;
    std::string digits;
    read_digits(digits, base);
    if (digits.empty()) fail("a number has no digits");
    if (base != 10 || after_dot || !read_fraction(digits)) {
      emit(TokenKind::kNumber, {});
      tokens_.back().number = parse_integer(digits, base);
    } else {
      emit(TokenKind::kNumber, {});
      tokens_.back().number = std::strtod(digits.c_str(), nullptr);
    }
  }

  // Appends ".5", "e-7" or both; false if the number is an integer.
  bool read_fraction(std::string& digits) {
    const std::size_t before = at_;
    if (peek() == '.' && is_digit(peek(1))) {
      digits.push_back(source_[at_++]);
      read_digits(digits, 10);
    }
    const std::size_t sign = is_sign(peek(1)) ? 1 : 0;
    if ((peek() | 0x20) == 'e' && is_digit(peek(1 + sign))) {
      digits.append(source_, at_, 1 + sign);
      at_ += 1 + sign;
      read_digits(digits, 10);
    }
    return at_ > before;
  }

  Int parse_integer(const std::string& digits, int base) {
    Int number = 0;
    for (char c : digits) {
      const int digit = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
      if (__builtin_mul_overflow(number, Int{base}, &number) ||
          __builtin_add_overflow(number, Int{digit}, &number))
        fail("an integer is too large");
    }
    return number;
  }

  void lex_string(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("a string is not closed");
    const std::string_view body = source_.substr(at_ + 1, end - at_ - 1);
    emit(TokenKind::kString, unescape(body));
    at_ = end + 1;
  }

  std::string unescape(std::string_view body) {
    std::string out;
    for (std::size_t i = 0; i < body.size();) {
      if (body[i] != '\\') {
        out.push_back(body[i++]);
      } else {
        i = unescape_one(body, i + 1, out);
      }
    }
    return out;
  }

  // The escape whose letter is body[i]; returns where it ends.
  std::size_t unescape_one(std::string_view body, std::size_t i, std::string& out) {
    static constexpr std::string_view kLetters = "ntr\\'\"abfv";
    static constexpr std::string_view kMeanings = "\n\t\r\\'\"\a\b\f\v";
    const char letter = body[i];
    if (letter == '\n') return i + 1;
    if (const std::size_t known = kLetters.find(letter); known != std::string_view::npos) {
      out.push_back(kMeanings[known]);
      return i + 1;
    }
    if (letter >= '0' && letter <= '7') return unescape_code(body, i, 8, 3, false, out);
    const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits > 0) return unescape_code(body, i + 1, 16, digits, true, out);
    out.push_back('\\');
    return i;
  }

  std::size_t unescape_code(std::string_view body, std::size_t i, int base, std::size_t max_digits,
                            bool exact, std::string& out) {
    std::size_t end = i;
    const std::string_view allowed =
        base == 8 ? std::string_view("01234567") : std::string_view("0123456789abcdefABCDEF");
    while (end < body.size() && end - i < max_digits && allowed.find(body[end]) != allowed.npos)
      ++end;
    const std::string digits(body.substr(i, end - i));
    const unsigned long code = digits.empty() ? 0 : std::strtoul(digits.c_str(), nullptr, base);
    if ((exact && end - i != max_digits) || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      fail("a string holds an escape that is no character");
    append_utf8(out, static_cast<std::int32_t>(code));
    return end;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;  // line_ is the line of this offset
  int line_ = 1;
  bool at_line_start_ = true;  // the text that follows begins a line
  std::string open_;           // brackets not closed yet
  std::vector<Token> tokens_;
};
}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace fasteep::jinja
