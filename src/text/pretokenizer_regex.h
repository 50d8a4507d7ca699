#pragma once
// A Split pattern in Oniguruma's flavour (what tokenizer.json holds), run by PCRE2.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_range.h"

namespace fasteep {

// The PCRE2 pattern that means what `pattern` means to Oniguruma. The two differ in \s (PCRE2 adds
// U+180E), in \h and \v, in nested classes and in inline options.
// Errors: kInvalidInput, a construct whose meaning differs and that no known tokenizer uses.
Result<std::string> translate_oniguruma(std::string_view pattern);

// Immutable after compile(): any thread.
class SplitRegex {
 public:
  static Result<SplitRegex> compile(std::string_view oniguruma_pattern);
  static Result<SplitRegex> literal(std::string_view text);  // matches exactly this text

  // Appends the matches from left to right; they do not overlap, and some may be empty.
  // valid_utf8 is the whole subject: `$` and look-around see nothing outside it.
  // Errors: kInvalidInput, the pattern needs too many steps on this text.
  Result<void> find_all(std::string_view valid_utf8, std::vector<TextRange>& matches) const;

 private:
  struct FreeCode {
    void operator()(void* code) const;
  };
  using Code = std::unique_ptr<void, FreeCode>;  // a pcre2_code, whose header stays out of ours
  SplitRegex(Code code, std::string pattern)
      : code_(std::move(code)), pattern_(std::move(pattern)) {}
  static Result<SplitRegex> compile_pcre2(std::string pattern);

  Code code_;
  std::string pattern_;  // as compiled, for errors
};

}  // namespace fasteep
