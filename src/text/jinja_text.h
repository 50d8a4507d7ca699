#pragma once
// Text of a template run: UTF-8 bytes that remember which of them came from a request.
//
// The marks let the tokeniser refuse special tokens that a user typed: `<|im_end|>` in a message
// is text, the same characters in the template are a token.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_range.h"

namespace fasteep::jinja {

struct Text {
  std::string bytes;                  // UTF-8; a stray byte counts as one character
  std::vector<TextRange> input_runs;  // ascending, disjoint: the bytes that came from a request
  bool markup = false;                // the result of `safe` or `escape`: `+` escapes its partner
};

// Builds a Text of at most max_bytes; past that it throws Failure.
class TextBuilder {
 public:
  explicit TextBuilder(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  void append(std::string_view template_bytes) { append_marked(template_bytes, false); }
  void append_marked(std::string_view bytes, bool from_input);
  void append(const Text& text) { append(text, 0, text.bytes.size()); }
  // Bytes [begin, end) of `text`, with their marks.
  void append(const Text& text, std::size_t begin, std::size_t end);
  void fill(std::size_t count, char byte);

  std::size_t size() const { return text_.bytes.size(); }
  Text take() { return std::move(text_); }

 private:
  void reserve_more(std::size_t count);
  void mark(std::size_t begin, std::size_t end);

  Text text_;
  std::size_t max_bytes_;
};

// Whether byte `offset` of `text` came from a request.
bool is_input_at(const Text& text, std::size_t offset);

// A character of `bytes` at `offset`: its code point (the byte itself if it is not UTF-8) and size.
struct Character {
  std::int32_t code_point;
  std::size_t size_bytes;
};
Character character_at(std::string_view bytes, std::size_t offset);
std::size_t count_characters(std::string_view bytes);
// Byte offset of each character, then bytes.size().
std::vector<std::size_t> character_offsets(std::string_view bytes);
void append_utf8(std::string& out, std::int32_t code_point);
bool is_valid_utf8(std::string_view bytes);

// Python's str.isspace() and str.isprintable() of one character.
bool is_space(std::int32_t code_point);
bool is_printable(std::int32_t code_point);

// What is left of `bytes` without its leading and trailing characters from `set`; an empty `set`
// means white space.
TextRange strip_range(std::string_view bytes, std::string_view set, bool left, bool right);

enum class Case { kUpper, kLower };
void append_cased(TextBuilder& out, const Text& text, TextRange range, Case to);
// First characters of words in upper case, the others in lower. in_word: whether the character
// after this one stands inside a word.
void append_titled(TextBuilder& out, const Text& text, bool (*in_word)(std::int32_t code_point));

}  // namespace fasteep::jinja
