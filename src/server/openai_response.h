#pragma once
// Answers of the OpenAI API as JSON.
#include <string>
#include <vector>

#include "server/completion_stream.h"
#include "server/prepared_request.h"

namespace fasteep {

struct Usage {
  int64_t prompt_tokens = 0;      // each prompt once, whatever n
  int64_t completion_tokens = 0;  // of all choices
  int64_t cached_tokens = 0;      // of the prompts, found in the prefix cache
};

// Writes the answers to one request: whole, or as the chunks of a stream. The request and the model
// outlive it. Threads: one.
class ResponseWriter {
 public:
  ResponseWriter(const PreparedRequest& request, const ServedModel& model);

  // The whole body; choices[i] is choice i % n of prompt i / n.
  std::string whole(const std::vector<ChoiceOutput>& choices, const Usage& usage) const;

  // A chunk of a stream. `usage` only if the client wants it in each one.
  std::string chunk(int index, const ChoiceOutput& delta, const Usage* usage);
  // The last chunk, which has no choices.
  std::string usage_chunk(const Usage& usage) const;

 private:
  OrderedJson head(const char* object) const;
  OrderedJson chat_choice(int index, const ChoiceOutput& output) const;
  OrderedJson text_choice(int index, const ChoiceOutput& output) const;
  OrderedJson chat_delta(int index, const ChoiceOutput& delta, bool is_first) const;
  void add_extras(int index, const ChoiceOutput& output, bool with_prompt,
                  OrderedJson& choice) const;
  OrderedJson logprobs(const ChoiceOutput& output, int text_offset) const;
  OrderedJson chat_logprobs(const ChoiceOutput& output) const;
  OrderedJson text_logprobs(const ChoiceOutput& output, int text_offset) const;
  OrderedJson chat_entry(TokenId token, float logprob) const;
  std::string token_text(TokenId token) const;

  const PreparedRequest& request_;
  const ServedModel& model_;
  std::string id_;
  int64_t created_s_;
  std::vector<bool> begun_;        // per choice: its first chunk is out
  std::vector<int> text_offsets_;  // per choice: characters of the tokens in chunks so far
};

}  // namespace fasteep
