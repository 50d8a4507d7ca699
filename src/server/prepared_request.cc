#include "server/prepared_request.h"

#include <algorithm>

namespace fasteep {
namespace {

// Without max_tokens: completions 16, chats what is left of the context. The checkpoint's
// max_new_tokens lowers both.
int default_max_tokens(OpenAiCall call, const ServedModel& model, int left) {
  constexpr int kCompletionTokens = 16;  // OpenAI's
  const int wanted = call == OpenAiCall::kCompletion ? kCompletionTokens : left;
  return std::min({wanted, left, model.defaults.max_new_tokens.value_or(left)});
}

Result<int> fit_max_tokens(const PreparedRequest& request, const ServedModel& model,
                           size_t prompt_tokens) {
  const char* prompt_field = request.call == OpenAiCall::kChat ? "messages" : "prompt";
  if (prompt_tokens == 0)
    return invalid_input("The prompt is empty: it holds no token.").on_field(prompt_field);
  if (prompt_tokens >= static_cast<size_t>(model.max_model_len))
    return invalid_input(
               "This model's maximum context length is {} tokens. However, your request has {} "
               "input "
               "tokens. Please reduce the length of the {}.",
               model.max_model_len, prompt_tokens, prompt_field)
        .on_field(prompt_field);
  const int left = model.max_model_len - static_cast<int>(prompt_tokens);
  if (!request.fields.max_tokens) return default_max_tokens(request.call, model, left);
  const int wanted = *request.fields.max_tokens;
  if (wanted <= left) return wanted;
  return invalid_input(
             "This model's maximum context length is {} tokens. However, you requested {} tokens "
             "({} in "
             "the {}, {} in the completion). Please reduce the length of the {} or completion.",
             model.max_model_len, static_cast<int64_t>(prompt_tokens) + wanted, prompt_tokens,
             prompt_field, wanted, prompt_field)
      .on_field(request.fields.max_tokens_field);
}

Result<void> add_prompt(PreparedRequest& request, const ServedModel& model,
                        std::vector<TokenId> prompt) {
  FASTEEP_TRY(const int max_tokens, fit_max_tokens(request, model, prompt.size()));
  request.prompts.push_back(std::move(prompt));
  request.max_tokens.push_back(max_tokens);
  return {};
}

Result<std::vector<TokenId>> encode(PromptInput& input, bool add_special, const TextModel& text) {
  if (auto* tokens = std::get_if<std::vector<TokenId>>(&input)) return std::move(*tokens);
  auto encoded = text.encode(std::get<std::string>(input), add_special);
  if (!encoded) return Error(encoded.error()).on_field("prompt");
  return encoded;
}

Result<PreparedRequest> prepare_completion(const OrderedJson& body, const ServedModel& model) {
  FASTEEP_TRY(CompletionRequest parsed, parse_completion_request(body, model));
  PreparedRequest request{OpenAiCall::kCompletion, std::move(parsed.fields), {}, {}};
  for (PromptInput& input : parsed.prompts) {
    FASTEEP_TRY(auto prompt, encode(input, parsed.add_special_tokens, model.text));
    FASTEEP_TRY_VOID(add_prompt(request, model, std::move(prompt)));
  }
  return request;
}

Result<PreparedRequest> prepare_chat(const OrderedJson& body, const ServedModel& model) {
  FASTEEP_TRY(ChatRequest parsed, parse_chat_request(body, model));
  PreparedRequest request{OpenAiCall::kChat, std::move(parsed.fields), {}, {}};
  auto prompt = model.text.encode_chat(parsed.prompt);
  if (!prompt) {
    const Error& error = prompt.error();
    return error.field().empty() ? Error(error).on_field("messages") : error;
  }
  FASTEEP_TRY_VOID(add_prompt(request, model, std::move(*prompt)));
  return request;
}

}  // namespace

Result<PreparedRequest> prepare_request(OpenAiCall call, std::string_view body,
                                        const ServedModel& model) {
  FASTEEP_TRY(const OrderedJson json, parse_json(body));
  return call == OpenAiCall::kChat ? prepare_chat(json, model) : prepare_completion(json, model);
}

}  // namespace fasteep
