#pragma once
// One choice: from the engine's events to text, with stop strings, log probabilities and token ids.
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "server/openai_request.h"
#include "text/stop_strings.h"

namespace fasteep {

// What a choice gained; all that it gained so far when summed with append().
struct ChoiceOutput {
  std::string text;
  std::vector<GeneratedToken> tokens;  // also those whose text is not shown (a stop token)
  std::optional<FinishReason> finish;
  std::variant<std::monostate, TokenId, std::string> stop_reason;  // none: the model's own end

  void append(ChoiceOutput more);
};

// Threads: one.
class CompletionStream {
 public:
  CompletionStream(const GenerationFields& fields, const ServedModel& model);

  // What the event adds. When a stop string ends the choice in the middle of the engine's work,
  // is_finished() becomes true although the event has no finish: the caller then cancels the
  // engine's request. Events after the end must not come.
  ChoiceOutput push(const StreamEvent& event);

  bool is_finished() const { return finished_; }
  int num_tokens() const { return num_tokens_; }
  int cached_prompt_tokens() const { return cached_prompt_tokens_; }

 private:
  std::string shown_text(const GeneratedToken& token, const StreamEvent& event, bool is_last);
  void add_text(const std::string& text, ChoiceOutput& output);
  void finish(const StreamEvent& event, ChoiceOutput& output);

  const GenerationFields& fields_;
  const std::vector<TokenId>& eos_ids_;
  std::unique_ptr<TokenStream> detokenizer_;
  StopStrings stops_;
  bool finished_ = false;
  int num_tokens_ = 0;
  int cached_prompt_tokens_ = 0;
};

}  // namespace fasteep
