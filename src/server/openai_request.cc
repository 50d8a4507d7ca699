#include "server/openai_request.h"

#include <limits>

#include "base/rng.h"
#include "server/json_fields.h"
#include "server/unsupported_fields.h"

namespace fasteep {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();

// Defaults of the checkpoint first, then what the request says, one by one.
void read_sampling(const GenerationDefaults& defaults, JsonFields& fields, SamplingParams& out) {
  out.temperature = defaults.temperature.value_or(1.0f);
  out.top_p = defaults.top_p.value_or(1.0f);
  out.top_k = defaults.top_k.value_or(0);
  out.min_p = defaults.min_p.value_or(0.0f);
  fields.read("temperature", out.temperature, Bounds{0, 1e6});
  fields.read("top_p", out.top_p, Bounds{0, 1, true});
  fields.read("top_k", out.top_k, Bounds{-1, kMaxInt});
  fields.read("min_p", out.min_p, Bounds{0, 1});
  out.top_k = std::max(out.top_k, 0);
  std::optional<int64_t> seed;  // negative ones are as good as any
  fields.read("seed", seed, Bounds{-0x1p63, 0x1p64});
  if (!fields.failed()) out.seed = seed ? static_cast<uint64_t>(*seed) : defaults.draw_seed();
}

void read_stops(int vocab_size, JsonFields& fields, GenerationFields& out) {
  fields.read_tokens("stop_token_ids", vocab_size, out.stop_token_ids);
  const OrderedJson* stop = fields.find("stop");
  if (!stop) return;
  const OrderedJson list = stop->is_array() ? *stop : OrderedJson::array({*stop});
  if (list.size() > kMaxStopStrings)
    return fields.fail(
        "stop", fmt::format("stop holds {} strings: at most {}", list.size(), kMaxStopStrings));
  for (const OrderedJson& item : list) {
    if (!item.is_string()) return fields.fail("stop", "stop must be a string or a list of strings");
    if (item == "") return fields.fail("stop", "stop cannot contain an empty string");
    out.stop.push_back(item.get<std::string>());
  }
}

void read_stream_options(JsonFields& fields, GenerationFields& out) {
  OrderedJson options;
  fields.read_object("stream_options", options);
  if (options.is_null()) return;
  if (!out.stream)
    return fields.fail("stream_options", "stream_options can only be given with \"stream\": true");
  JsonFields inner(options);
  inner.read("include_usage", out.include_usage);
  inner.read("continuous_usage_stats", out.continuous_usage);
  if (inner.failed())
    fields.fail("stream_options", "stream_options." + inner.result().error().message());
}

void read_max_tokens(JsonFields& fields, GenerationFields& out) {
  fields.read("max_tokens", out.max_tokens, Bounds{1, kMaxInt});
  if (!fields.find("max_completion_tokens")) return;
  out.max_tokens_field = "max_completion_tokens";  // the newer spelling wins
  fields.read("max_completion_tokens", out.max_tokens, Bounds{1, kMaxInt});
}

void read_common(const ServedModel& model, JsonFields& fields, GenerationFields& out) {
  read_sampling(model.defaults, fields, out.sampling);
  read_max_tokens(fields, out);
  fields.read("n", out.n, Bounds{1, kMaxChoices});
  read_stops(model.vocab_size, fields, out);
  fields.read("stream", out.stream);
  read_stream_options(fields, out);
  fields.read("ignore_eos", out.ignore_eos);
  fields.read("skip_special_tokens", out.skip_special_tokens);
  fields.read("include_stop_str_in_output", out.include_stop_text);
  fields.read("return_token_ids", out.return_token_ids);
  fields.read("return_logits_digest", out.return_logits_digest);
  fields.read("return_tokens_as_token_ids", out.tokens_as_ids);
}

Result<void> read_model(const OrderedJson& body, const ServedModel& model, std::string& out) {
  if (!body.is_object()) return invalid_input("the body must be a JSON object");
  JsonFields fields(body);
  fields.read("model", out);
  FASTEEP_TRY_VOID(fields.result());
  FASTEEP_TRY(out, model.find_name(out));
  return {};
}

std::optional<std::vector<TokenId>> token_list(const OrderedJson& list, int vocab_size,
                                               JsonFields& fields) {
  std::vector<TokenId> tokens;
  tokens.reserve(list.size());
  for (const OrderedJson& item : list) {
    const Result<TokenId> id = token_id(item, vocab_size);
    if (!id) {
      fields.fail("prompt", "prompt: " + id.error().message());
      return std::nullopt;
    }
    tokens.push_back(*id);
  }
  return tokens;
}

// One text, one list of ids, or a list of either.
void read_prompts(int vocab_size, JsonFields& fields, std::vector<PromptInput>& out) {
  const OrderedJson* prompt = fields.find("prompt");
  if (!prompt) return fields.fail("prompt", "prompt is missing");
  if (prompt->is_string()) return out.emplace_back(prompt->get<std::string>()), void();
  if (!prompt->is_array())
    return fields.fail("prompt",
                       "prompt must be a string, a list of strings or lists of token ids");
  if (prompt->empty()) return fields.fail("prompt", "prompt is an empty list");
  const bool is_one_prompt = prompt->front().is_number();
  const OrderedJson one = is_one_prompt ? OrderedJson::array({*prompt}) : OrderedJson();
  const OrderedJson& list = is_one_prompt ? one : *prompt;
  if (list.size() > kMaxPrompts)
    return fields.fail(
        "prompt", fmt::format("prompt holds {} prompts: at most {}", list.size(), kMaxPrompts));
  for (const OrderedJson& item : list) {
    if (item.is_string()) {
      out.emplace_back(item.get<std::string>());
    } else if (item.is_array()) {
      auto tokens = token_list(item, vocab_size, fields);
      if (!tokens) return;
      out.emplace_back(std::move(*tokens));
    } else {
      return fields.fail("prompt", fmt::format("prompt: {} is neither text nor a list of token ids",
                                               brief_text(item)));
    }
  }
}

// The template has more to say about messages; this is what no template can do without.
void check_messages(const OrderedJson& messages, JsonFields& fields) {
  if (messages.empty()) return fields.fail("messages", "messages must hold at least one message");
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object())
      return fields.fail("messages", fmt::format("messages[{}] must be an object", i));
    if (!messages[i].contains("role") || !messages[i]["role"].is_string())
      return fields.fail("messages", fmt::format("messages[{}].role must be a string", i));
  }
}

void read_chat_flags(JsonFields& fields, ChatPrompt& out) {
  std::optional<bool> add_generation_prompt;
  fields.read("continue_final_message", out.continue_final_message);
  fields.read("add_generation_prompt", add_generation_prompt);
  fields.read("add_special_tokens", out.add_special_tokens);
  // To go on with a message excludes opening a new one, so the default follows.
  out.add_generation_prompt = add_generation_prompt.value_or(!out.continue_final_message);
  if (out.continue_final_message && out.add_generation_prompt)
    fields.fail("continue_final_message",
                "continue_final_message and add_generation_prompt cannot both be true");
}

Result<ChatPrompt> parse_chat_prompt(const OrderedJson& body) {
  ChatPrompt prompt;
  JsonFields fields(body);
  if (!fields.find("messages")) fields.fail("messages", "messages is missing");
  fields.read_list("messages", prompt.messages);
  check_messages(prompt.messages, fields);
  fields.read_list("tools", prompt.tools);
  fields.read_list("documents", prompt.documents);
  fields.read_object("chat_template_kwargs", prompt.template_kwargs);
  read_chat_flags(fields, prompt);
  FASTEEP_TRY_VOID(fields.result());
  return prompt;
}

// logprobs: true with top_logprobs: the best so many besides the chosen one.
void read_chat_logprobs(JsonFields& fields, int& num_logprobs) {
  bool logprobs = false;
  int top = 0;
  fields.read("logprobs", logprobs);
  fields.read("top_logprobs", top, Bounds{0, kMaxLogprobs});
  if (top > 0 && !logprobs)
    fields.fail("top_logprobs", "when using top_logprobs, logprobs must be set to true");
  if (logprobs) num_logprobs = top;
}

}  // namespace

Result<CompletionRequest> parse_completion_request(const OrderedJson& body,
                                                   const ServedModel& model) {
  CompletionRequest request;
  FASTEEP_TRY_VOID(read_model(body, model, request.fields.model));
  JsonFields fields(body);
  refuse_unsupported(OpenAiCall::kCompletion, fields);
  read_common(model, fields, request.fields);
  fields.read("logprobs", request.fields.sampling.num_logprobs, Bounds{0, kMaxLogprobs});
  fields.read("add_special_tokens", request.add_special_tokens);
  read_prompts(model.vocab_size, fields, request.prompts);
  if (request.prompts.size() * request.fields.n > kMaxPrompts)
    fields.fail("n", fmt::format("{} prompts with n = {} are more than {} choices",
                                 request.prompts.size(), request.fields.n, kMaxPrompts));
  FASTEEP_TRY_VOID(fields.result());
  return request;
}

Result<ChatRequest> parse_chat_request(const OrderedJson& body, const ServedModel& model) {
  ChatRequest request;
  FASTEEP_TRY_VOID(read_model(body, model, request.fields.model));
  JsonFields fields(body);
  refuse_unsupported(OpenAiCall::kChat, fields);
  read_common(model, fields, request.fields);
  read_chat_logprobs(fields, request.fields.sampling.num_logprobs);
  FASTEEP_TRY_VOID(fields.result());
  FASTEEP_TRY(request.prompt, parse_chat_prompt(body));
  return request;
}

Result<TokenizeRequest> parse_tokenize_request(const OrderedJson& body, const ServedModel& model) {
  TokenizeRequest request;
  std::string name;
  FASTEEP_TRY_VOID(read_model(body, model, name));
  JsonFields fields(body);
  fields.read("return_token_strs", request.return_token_strs);
  if (fields.find("messages")) {
    FASTEEP_TRY_VOID(fields.result());
    FASTEEP_TRY(request.prompt, parse_chat_prompt(body));
    return request;
  }
  std::string text;
  if (!fields.find("prompt")) fields.fail("prompt", "prompt (or messages) is missing");
  fields.read("prompt", text);
  fields.read("add_special_tokens", request.add_special_tokens);
  FASTEEP_TRY_VOID(fields.result());
  request.prompt = std::move(text);
  return request;
}

Result<std::vector<TokenId>> parse_detokenize_request(const OrderedJson& body,
                                                      const ServedModel& model) {
  std::string name;
  FASTEEP_TRY_VOID(read_model(body, model, name));
  std::vector<TokenId> tokens;
  JsonFields fields(body);
  if (!fields.find("tokens")) fields.fail("tokens", "tokens is missing");
  fields.read_tokens("tokens", model.vocab_size, tokens);
  FASTEEP_TRY_VOID(fields.result());
  return tokens;
}

}  // namespace fasteep
