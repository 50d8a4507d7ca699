#pragma once
// Known fields of the OpenAI and vLLM APIs that would change the answer and are not implemented.
// They are refused by name; unknown fields are ignored, as vLLM does.
#include "server/json_fields.h"

namespace fasteep {

enum class OpenAiCall { kCompletion, kChat };

// Fails `fields` for the first such field whose value asks for something.
void refuse_unsupported(OpenAiCall call, JsonFields& fields);

}  // namespace fasteep
