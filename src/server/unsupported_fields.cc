#include "server/unsupported_fields.h"

#include <algorithm>
#include <array>

namespace fasteep {
namespace {

using IsHarmless = bool (*)(const OrderedJson& value);  // the value that asks for nothing

bool is_zero(const OrderedJson& value) { return value.is_number() && value.get<double>() == 0; }
bool is_one(const OrderedJson& value) { return value.is_number() && value.get<double>() == 1; }
bool is_false(const OrderedJson& value) { return value == false; }
bool is_empty(const OrderedJson& value) {
  return (value.is_structured() && value.empty()) || value == "";
}
bool is_never(const OrderedJson&) { return false; }
bool is_text_format(const OrderedJson& value) {
  return value.is_object() && value.contains("type") && value["type"] == "text";
}
bool is_free_choice(const OrderedJson& value) { return value == "none" || value == "auto"; }
bool is_text_only(const OrderedJson& value) { return value == OrderedJson::array({"text"}); }

struct Unsupported {
  std::string_view name;
  IsHarmless is_harmless;
  std::string_view remedy;
};

constexpr std::string_view kLeaveOut = "leave it out";

constexpr std::array kBoth = {
    Unsupported{"presence_penalty", is_zero, "leave it out or set it to 0"},
    Unsupported{"frequency_penalty", is_zero, "leave it out or set it to 0"},
    Unsupported{"repetition_penalty", is_one, "leave it out or set it to 1"},
    Unsupported{"length_penalty", is_one, "leave it out or set it to 1"},
    Unsupported{"min_tokens", is_zero, "leave it out or set it to 0"},
    Unsupported{"logit_bias", is_empty, kLeaveOut},
    Unsupported{"bad_words", is_empty, kLeaveOut},
    Unsupported{"allowed_token_ids", is_never, kLeaveOut},
    Unsupported{"logits_processors", is_empty, kLeaveOut},
    Unsupported{"response_format", is_text_format,
                "leave it out or set it to {\"type\": \"text\"}"},
    Unsupported{"structured_outputs", is_never, kLeaveOut},
    Unsupported{"guided_json", is_never, kLeaveOut},
    Unsupported{"guided_regex", is_never, kLeaveOut},
    Unsupported{"guided_choice", is_never, kLeaveOut},
    Unsupported{"guided_grammar", is_never, kLeaveOut},
    Unsupported{"structural_tag", is_never, kLeaveOut},
    Unsupported{"echo", is_false, "leave it out or set it to false"},
    Unsupported{"use_beam_search", is_false, "leave it out or set it to false"},
    Unsupported{"prompt_logprobs", is_never, kLeaveOut},
    Unsupported{"truncate_prompt_tokens", is_never, kLeaveOut},
};
constexpr std::array kCompletionOnly = {
    Unsupported{"suffix", is_empty, kLeaveOut},
    Unsupported{"prompt_embeds", is_never, "send the prompt as text or token ids"},
};
constexpr std::array kChatOnly = {
    Unsupported{"tool_choice", is_free_choice, "leave it out or set it to \"none\" or \"auto\""},
    Unsupported{"functions", is_empty, "use tools"},
    Unsupported{"function_call", is_free_choice, "leave it out"},
    Unsupported{"modalities", is_text_only, "leave it out or set it to [\"text\"]"},
    Unsupported{"audio", is_never, kLeaveOut},
    Unsupported{"chat_template", is_never, "the server uses the model's own template"},
};

template <class List>
void refuse_all(const List& list, JsonFields& fields) {
  for (const Unsupported& one : list) {
    const OrderedJson* value = fields.find(one.name);
    if (value && !one.is_harmless(*value))
      fields.fail(one.name, fmt::format("{} is not supported: {}", one.name, one.remedy));
  }
}

}  // namespace

void refuse_unsupported(OpenAiCall call, JsonFields& fields) {
  refuse_all(kBoth, fields);
  if (call == OpenAiCall::kChat) return refuse_all(kChatOnly, fields);
  refuse_all(kCompletionOnly, fields);
  const OrderedJson* best_of = fields.find("best_of");
  const OrderedJson* n = fields.find("n");
  if (best_of && *best_of != (n ? *n : OrderedJson(1)))
    fields.fail("best_of", "best_of is not supported: leave it out or set it to n");
}

}  // namespace fasteep
