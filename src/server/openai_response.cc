#include "server/openai_response.h"

#include <algorithm>

#include "base/clock.h"
#include "base/rng.h"

namespace fasteep {
namespace {

OrderedJson usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

OrderedJson finish_json(const ChoiceOutput& output) {
  return output.finish ? OrderedJson(to_string(*output.finish)) : OrderedJson();
}

OrderedJson stop_reason_json(const ChoiceOutput& output) {
  if (const auto* token = std::get_if<TokenId>(&output.stop_reason)) return *token;
  if (const auto* text = std::get_if<std::string>(&output.stop_reason)) return *text;
  return nullptr;
}

// JSON has no infinity; -9999 is vLLM's.
double finite_logprob(float logprob) { return logprob > -9999.0f ? logprob : -9999.0; }

int count_characters(std::string_view utf8) {
  return static_cast<int>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Bytes that are not UTF-8 as U+FFFD.
std::string displayable(const std::string& bytes) {
  return OrderedJson::parse(to_text(OrderedJson(bytes))).get<std::string>();
}

}  // namespace

ResponseWriter::ResponseWriter(const PreparedRequest& request, const ServedModel& model)
    : request_(request),
      model_(model),
      id_(fmt::format("{}-{:016x}{:016x}", request.call == OpenAiCall::kChat ? "chatcmpl" : "cmpl",
                      fresh_seed(), fresh_seed())),
      created_s_(unix_time_s()),
      begun_(request.prompts.size() * request.fields.n, false),
      text_offsets_(begun_.size(), 0) {}

OrderedJson ResponseWriter::head(const char* object) const {
  return {
      {"id", id_}, {"object", object}, {"created", created_s_}, {"model", request_.fields.model}};
}

std::string ResponseWriter::whole(const std::vector<ChoiceOutput>& choices,
                                  const Usage& usage) const {
  const bool is_chat = request_.call == OpenAiCall::kChat;
  OrderedJson body = head(is_chat ? "chat.completion" : "text_completion");
  OrderedJson& list = body["choices"] = OrderedJson::array();
  for (size_t i = 0; i < choices.size(); ++i) {
    const int index = static_cast<int>(i);
    list.push_back(is_chat ? chat_choice(index, choices[i]) : text_choice(index, choices[i]));
    add_extras(index, choices[i], true, list.back());
  }
  body["usage"] = usage_json(usage);
  if (is_chat && request_.fields.return_token_ids) body["prompt_token_ids"] = request_.prompts[0];
  return to_text(body);
}

OrderedJson ResponseWriter::chat_choice(int index, const ChoiceOutput& output) const {
  return {{"index", index},
          {"message", {{"role", "assistant"}, {"content", output.text}}},
          {"logprobs", logprobs(output, 0)},
          {"finish_reason", finish_json(output)},
          {"stop_reason", stop_reason_json(output)}};
}

OrderedJson ResponseWriter::text_choice(int index, const ChoiceOutput& output) const {
  return {{"index", index},
          {"text", output.text},
          {"logprobs", logprobs(output, text_offsets_[index])},
          {"finish_reason", finish_json(output)},
          {"stop_reason", stop_reason_json(output)}};
}

OrderedJson ResponseWriter::chat_delta(int index, const ChoiceOutput& delta, bool is_first) const {
  OrderedJson message = OrderedJson::object();
  if (is_first) message["role"] = "assistant";
  message["content"] = delta.text;
  return {{"index", index},
          {"delta", std::move(message)},
          {"logprobs", logprobs(delta, 0)},
          {"finish_reason", finish_json(delta)},
          {"stop_reason", stop_reason_json(delta)}};
}

void ResponseWriter::add_extras(int index, const ChoiceOutput& output, bool with_prompt,
                                OrderedJson& choice) const {
  if (request_.fields.return_token_ids) {
    if (with_prompt) choice["prompt_token_ids"] = request_.prompts[index / request_.fields.n];
    OrderedJson& ids = choice["token_ids"] = OrderedJson::array();
    for (const GeneratedToken& token : output.tokens) ids.push_back(token.sample.token);
  }
  if (request_.fields.return_logits_digest) {
    OrderedJson& digests = choice["logits_digests"] = OrderedJson::array();
    for (const GeneratedToken& token : output.tokens)
      digests.push_back(fmt::format("{:016x}", token.logits_digest));
  }
}

std::string ResponseWriter::chunk(int index, const ChoiceOutput& delta, const Usage* usage) {
  const bool is_chat = request_.call == OpenAiCall::kChat;
  const bool is_first = !begun_[index];
  OrderedJson body = head(is_chat ? "chat.completion.chunk" : "text_completion");
  OrderedJson choice = is_chat ? chat_delta(index, delta, is_first) : text_choice(index, delta);
  add_extras(index, delta, is_first, choice);
  body["choices"] = OrderedJson::array({std::move(choice)});
  if (usage) body["usage"] = usage_json(*usage);
  if (is_chat && is_first && request_.fields.return_token_ids)
    body["prompt_token_ids"] = request_.prompts[0];
  begun_[index] = true;
  if (request_.fields.sampling.num_logprobs >= 0)
    for (const GeneratedToken& token : delta.tokens)
      text_offsets_[index] += count_characters(token_text(token.sample.token));
  return to_text(body);
}

std::string ResponseWriter::usage_chunk(const Usage& usage) const {
  const bool is_chat = request_.call == OpenAiCall::kChat;
  OrderedJson body = head(is_chat ? "chat.completion.chunk" : "text_completion");
  body["choices"] = OrderedJson::array();
  body["usage"] = usage_json(usage);
  return to_text(body);
}

OrderedJson ResponseWriter::logprobs(const ChoiceOutput& output, int text_offset) const {
  if (request_.fields.sampling.num_logprobs < 0) return nullptr;
  return request_.call == OpenAiCall::kChat ? chat_logprobs(output)
                                            : text_logprobs(output, text_offset);
}

std::string ResponseWriter::token_text(TokenId token) const {
  if (request_.fields.tokens_as_ids) return fmt::format("token_id:{}", token);
  return displayable(model_.text.token_bytes(token));
}

OrderedJson ResponseWriter::chat_entry(TokenId token, float logprob) const {
  OrderedJson bytes = OrderedJson::array();
  for (const unsigned char byte : model_.text.token_bytes(token)) bytes.push_back(byte);
  return {{"token", token_text(token)},
          {"logprob", finite_logprob(logprob)},
          {"bytes", std::move(bytes)}};
}

OrderedJson ResponseWriter::chat_logprobs(const ChoiceOutput& output) const {
  OrderedJson content = OrderedJson::array();
  for (const GeneratedToken& token : output.tokens) {
    const Sample& sample = token.sample;
    OrderedJson entry = chat_entry(sample.token, sample.logprob);
    OrderedJson& top = entry["top_logprobs"] = OrderedJson::array();
    for (const TokenLogprob& one : sample.top) top.push_back(chat_entry(one.token, one.logprob));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

OrderedJson ResponseWriter::text_logprobs(const ChoiceOutput& output, int text_offset) const {
  OrderedJson offsets = OrderedJson::array(), logprobs = OrderedJson::array();
  OrderedJson tokens = OrderedJson::array(), tops = OrderedJson::array();
  for (const GeneratedToken& token : output.tokens) {
    const Sample& sample = token.sample;
    const std::string text = token_text(sample.token);
    offsets.push_back(text_offset);
    text_offset += count_characters(text);
    tokens.push_back(text);
    logprobs.push_back(finite_logprob(sample.logprob));
    OrderedJson top = {{text, finite_logprob(sample.logprob)}};  // the chosen one is always there
    for (const TokenLogprob& one : sample.top)
      top[token_text(one.token)] = finite_logprob(one.logprob);
    tops.push_back(std::move(top));
  }
  return {{"text_offset", std::move(offsets)},
          {"token_logprobs", std::move(logprobs)},
          {"tokens", std::move(tokens)},
          {"top_logprobs", std::move(tops)}};
}

}  // namespace fasteep
