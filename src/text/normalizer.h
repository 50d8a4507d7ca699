#pragma once
// The normalizer of a tokenizer.json: NFC and its sisters, Prepend, Replace of a string, Sequence.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/text_range.h"
#include "text/tokenizer_json.h"

namespace fasteep {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Linear in the text but for sorting runs of combining marks. valid_utf8 must be valid.
std::string unicode_normalize(std::string_view valid_utf8, UnicodeForm form);

// Immutable: any thread.
class Normalizer {
 public:
  Normalizer() = default;  // leaves every text as it is

  // description: the "normalizer" of tokenizer.json, or null. Errors: kInvalidInput, names the
  // type.
  static Result<Normalizer> from_json(const Json* description);

  // The result does not depend on `ranges`. They are byte ranges of `text` (sorted, not
  // overlapping) and become ranges of the result; one grows to whole characters where characters
  // were composed.
  std::string apply(std::string text, std::vector<TextRange>& ranges) const;

  bool is_identity() const { return steps_.empty(); }

 private:
  struct Prepend {
    std::string text;
  };
  struct Replace {
    std::string pattern, content;
  };
  using Step = std::variant<UnicodeForm, Prepend, Replace>;

  Result<void> add(const Json& description);
  static std::string run(UnicodeForm form, std::string text, std::vector<TextRange>& ranges);
  static std::string run(const Prepend& step, std::string text, std::vector<TextRange>& ranges);
  static std::string run(const Replace& step, std::string text, std::vector<TextRange>& ranges);

  std::vector<Step> steps_;
};

}  // namespace fasteep
