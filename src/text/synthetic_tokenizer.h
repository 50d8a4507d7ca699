#pragma once
// Makes a working byte-level BPE tokenizer of any size, for models with made-up weights.
#include <string>

#include "base/result.h"

namespace fasteep {

// The text of a tokenizer.json with exactly vocab_size tokens: the 256 bytes, tokens merged from
// lower-case letters and blanks, and as the last three <|endoftext|>, <|im_start|>, <|im_end|>.
// The same size gives the same text. Errors: kInvalidInput, below 259 or above 1,000,000.
Result<std::string> make_byte_tokenizer_json(int vocab_size);

// The tokenizer_config.json beside it, with a ChatML template.
Result<std::string> make_byte_tokenizer_config_json(int vocab_size);

}  // namespace fasteep
