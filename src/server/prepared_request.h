#pragma once
// From a body to what the engine takes: parsed, rendered, tokenised, and fitted into the context.
#include <string_view>
#include <vector>

#include "server/openai_request.h"
#include "server/unsupported_fields.h"

namespace fasteep {

struct PreparedRequest {
  OpenAiCall call = OpenAiCall::kCompletion;
  GenerationFields fields;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<int> max_tokens;  // per prompt; prompt + max_tokens <= max_model_len
};

// Any thread; a long prompt takes a while. Errors: kInvalidInput, kNotFound, on_field(the field).
Result<PreparedRequest> prepare_request(OpenAiCall call, std::string_view body,
                                        const ServedModel& model);

}  // namespace fasteep
