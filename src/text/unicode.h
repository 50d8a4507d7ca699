#pragma once
// UTF-8 and the few Unicode properties that tokenizers ask for. Pure functions, any thread.
#include <cstddef>
#include <string>
#include <string_view>

namespace fasteep {

// What stands at the front of some bytes. An invalid step is a maximal subpart (the WHATWG rule):
// the longest start of a valid sequence, at least one byte.
struct Utf8Step {
  enum class Kind { kValid, kInvalid, kIncomplete };  // incomplete: the bytes end too early
  Kind kind = Kind::kInvalid;
  size_t length = 0;  // bytes
};

Utf8Step utf8_step(std::string_view bytes);  // bytes must not be empty

bool is_valid_utf8(std::string_view bytes);

// Reads the code point at `position` of a valid text and moves `position` behind it.
char32_t next_code_point(std::string_view valid_utf8, size_t& position);

void append_utf8(std::string& out, char32_t code_point);

// How many U+FFFD stand for invalid bytes: one for each maximal subpart, or one for each byte.
enum class Replacement { kPerSubpart, kPerByte };

// Appends `bytes` to `out` as valid UTF-8, and returns how many bytes that used: all, or all but an
// incomplete sequence at the end (at most 3 bytes), which later bytes may complete.
size_t append_complete_text(std::string& out, std::string_view bytes, Replacement replacement);

// The same, with an incomplete sequence at the end replaced as well.
void append_lossy_text(std::string& out, std::string_view bytes, Replacement replacement);

bool is_white_space(char32_t c);  // the property White_Space
bool is_numeric(char32_t c);      // categories Nd, Nl, No
bool is_word(char32_t c);         // letters, marks, decimal and letter numbers, connectors, joiners
bool is_mark(char32_t c);         // categories Mn, Mc, Me

}  // namespace fasteep
