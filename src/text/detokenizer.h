#pragma once
// Turns token ids into text one by one, for streams: never a part of a character.
#include <memory>
#include <string>

#include "base/ids.h"
#include "text/detokenizer_table.h"
#include "text/tokenizer.h"

namespace fasteep {

// Copyable: a copy goes on from the same point. One thread for each object.
// The deltas and finish() together are Tokenizer::decode() of the ids, with one exception: a run of
// byte-fallback tokens that holds valid and invalid characters. The reference replaces every byte
// of such a run, which a stream cannot know in time; here the valid characters come out.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special);

  // The text that this token completes; "" for ids without text and for skipped special tokens.
  std::string push(TokenId id);

  // The rest: U+FFFD for a character that was never completed.
  std::string finish();

 private:
  std::string strip(std::string text);

  std::shared_ptr<const TokenTable> table_;  // shared: a stream may outlive the tokenizer object
  bool skip_special_;
  bool is_first_ = true;  // no token has been taken yet
  std::string pending_;   // the start of a character, at most 3 bytes between calls
  int to_strip_;          // copies of the table's strip_text() still to drop, while nothing is out
  std::string held_;      // a start of strip_text() that may yet be dropped
};

}  // namespace fasteep
