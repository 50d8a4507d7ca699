#pragma once
// The post_processor of a tokenizer.json: what add_special_tokens puts around a text.
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/tokenizer_json.h"

namespace fasteep {

struct SpecialTemplate {
  std::vector<TokenId> prefix, suffix;  // usually BOS, and nothing
};

// post_processor: from tokenizer.json, or null. config: tokenizer_config.json, or null; its
// add_bos_token and add_eos_token overrule the template. Errors: kInvalidInput.
Result<SpecialTemplate> read_special_template(const Json* post_processor, const Json* config,
                                              const Vocabulary& vocabulary,
                                              const std::vector<AddedToken>& added);

}  // namespace fasteep
