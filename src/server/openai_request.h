#pragma once
// Bodies of the OpenAI API, checked and typed.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/sampling.h"
#include "server/json_limits.h"
#include "server/served_model.h"

namespace fasteep {

// What completions and chat completions share.
struct GenerationFields {
  std::string model;              // the served name that answers carry
  SamplingParams sampling;        // seed: of the first choice; the next ones add 1 each
  std::optional<int> max_tokens;  // absent: see prepared_request.h
  std::string max_tokens_field = "max_tokens";  // as the client spelled it
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  int n = 1;  // choices per prompt
  bool stream = false;
  bool include_usage = false;     // a last chunk of a stream holds the usage
  bool continuous_usage = false;  // and so does each other chunk
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool include_stop_text = false;
  bool return_token_ids = false;
  bool return_logits_digest = false;  // FastEEP's own, for tests: 16 hex digits per token
  bool tokens_as_ids = false;         // "token_id:17" in place of text in logprobs
};

using PromptInput = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  GenerationFields fields;
  std::vector<PromptInput> prompts;  // at least one
  bool add_special_tokens = true;
};

struct ChatRequest {
  GenerationFields fields;
  ChatPrompt prompt;
};

// vLLM's /tokenize: a text or a chat.
struct TokenizeRequest {
  std::variant<std::string, ChatPrompt> prompt;
  bool add_special_tokens = true;  // of a text
  bool return_token_strs = false;
};

constexpr int kMaxChoices = 128;   // n
constexpr int kMaxPrompts = 2048;  // of one request; prompts times n is bounded by it as well
constexpr int kMaxStopStrings = 128;
constexpr int kMaxLogprobs = 20;  // vLLM's --max-logprobs

// Any thread. Errors: kInvalidInput or kNotFound (the model's name), on_field(the field).
Result<CompletionRequest> parse_completion_request(const OrderedJson& body,
                                                   const ServedModel& model);
Result<ChatRequest> parse_chat_request(const OrderedJson& body, const ServedModel& model);
Result<TokenizeRequest> parse_tokenize_request(const OrderedJson& body, const ServedModel& model);
// The tokens of vLLM's /detokenize.
Result<std::vector<TokenId>> parse_detokenize_request(const OrderedJson& body,
                                                      const ServedModel& model);

}  // namespace fasteep
