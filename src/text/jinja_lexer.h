#pragma once
// Template source to tokens. White space control (`-`, `+`, trim_blocks, lstrip_blocks) is done
// here, so that the parser sees only the text that is printed.
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace fasteep::jinja {

enum class TokenKind {
  kText,           // value: outside of tags
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,           // value
  kString,         // value, unescaped
  kNumber,         // number
  kOperator,       // value
  kEnd,
};

struct Token {
  TokenKind kind;
  int line;
  std::string value;
  Value number;
};

// Throws Failure with the line. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

// The source's lines end in \n, and its last line break is gone.
std::string normalize_lines(std::string_view source);

}  // namespace fasteep::jinja
