#pragma once
// The pre_tokenizer of a tokenizer.json: cuts a text into the pieces that BPE works on.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/pretokenizer_regex.h"
#include "text/text_range.h"
#include "text/tokenizer_json.h"

namespace fasteep {

enum class SplitBehavior {
  kRemoved,             // matches are dropped
  kIsolated,            // matches and gaps are pieces
  kMergedWithPrevious,  // a match joins the gap before it
  kMergedWithNext,      // a match joins the gap behind it
  kContiguous,          // adjacent matches are one piece
};

// A text and its pieces: ranges of it, in order, none empty.
struct Pieces {
  std::string text;
  std::vector<TextRange> ranges;
  bool begins_input = false;  // the first piece stands at the very start of the whole input

  std::string_view piece(const TextRange& range) const {
    return std::string_view(text).substr(range.begin, range.size());
  }
};

// Immutable: any thread.
class Pretokenizer {
 public:
  Pretokenizer() = default;  // one piece: the text

  // description: the "pre_tokenizer" of tokenizer.json, or null. Errors: kInvalidInput.
  static Result<Pretokenizer> from_json(const Json* description);

  // valid_utf8 must be valid. begins_input: nothing stands before it in the input, not even a
  // token. Errors: kInvalidInput, a regex needs too many steps.
  Result<Pieces> split(std::string valid_utf8, bool begins_input) const;

  // Whether pieces are bytes for the byte-level alphabet, and not characters. They are not mapped.
  bool is_byte_level() const { return is_byte_level_; }

 private:
  struct Split {
    SplitRegex regex;
    SplitBehavior behavior;
    bool invert;  // matches are gaps and gaps matches
  };
  struct Digits {
    bool individual;
  };
  struct PrefixSpace {};  // ByteLevel's add_prefix_space
  enum class Scheme { kAlways, kNever, kFirst };
  struct Metaspace {
    std::string replacement;
    Scheme scheme;
    bool split;
  };
  using Step = std::variant<Split, Digits, PrefixSpace, Metaspace>;

  Result<void> add(const Json& description);
  Result<void> add_split(const Json& description);
  Result<void> add_byte_level(const Json& description);
  Result<void> add_metaspace(const Json& description);
  static Result<void> run(const Split& step, Pieces& pieces);
  static Result<void> run(const Digits& step, Pieces& pieces);
  static Result<void> run(const PrefixSpace& step, Pieces& pieces);
  static Result<void> run(const Metaspace& step, Pieces& pieces);

  std::vector<Step> steps_;
  bool is_byte_level_ = false;
};

}  // namespace fasteep
