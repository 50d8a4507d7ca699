#include "server/completion_stream.h"

#include <algorithm>

namespace fasteep {
namespace {

StopStrings make_stops(const GenerationFields& fields) {
  auto stops = StopStrings::create(fields.stop, {fields.include_stop_text});
  CHECK(stops.has_value(), "empty stop strings are refused with the request");
  return std::move(*stops);
}

}  // namespace

void ChoiceOutput::append(ChoiceOutput more) {
  text += more.text;
  std::move(more.tokens.begin(), more.tokens.end(), std::back_inserter(tokens));
  finish = more.finish;
  stop_reason = std::move(more.stop_reason);
}

CompletionStream::CompletionStream(const GenerationFields& fields, const ServedModel& model)
    : fields_(fields),
      eos_ids_(model.eos_ids),
      detokenizer_(model.text.stream(fields.skip_special_tokens)),
      stops_(make_stops(fields)) {}

ChoiceOutput CompletionStream::push(const StreamEvent& event) {
  CHECK(!finished_, "an event after the choice's end");
  ChoiceOutput output;
  cached_prompt_tokens_ = event.cached_prompt_tokens;
  for (size_t i = 0; i < event.tokens.size() && !finished_; ++i) {
    const bool is_last = i + 1 == event.tokens.size();
    output.tokens.push_back(event.tokens[i]);
    ++num_tokens_;
    add_text(shown_text(event.tokens[i], event, is_last), output);
  }
  if (event.finish && !finished_) finish(event, output);
  return output;
}

// The token that ended the choice has no text, unless the client wants to see what stopped it.
std::string CompletionStream::shown_text(const GeneratedToken& token, const StreamEvent& event,
                                         bool is_last) {
  const bool is_stop =
      is_last && event.finish == FinishReason::kStop && token.sample.token == event.stop_token;
  if (is_stop && !fields_.include_stop_text) return {};
  return detokenizer_->push(token.sample.token);
}

void CompletionStream::add_text(const std::string& text, ChoiceOutput& output) {
  StopDelivery delivery = stops_.push(text);
  output.text += delivery.text;
  if (!delivery.stopped) return;
  finished_ = true;
  output.finish = FinishReason::kStop;
  output.stop_reason = fields_.stop[delivery.which];
}

void CompletionStream::finish(const StreamEvent& event, ChoiceOutput& output) {
  add_text(detokenizer_->finish(), output);
  if (finished_) return;
  output.text += stops_.finish();
  finished_ = true;
  output.finish = event.finish;
  const bool is_models_own =
      std::find(eos_ids_.begin(), eos_ids_.end(), event.stop_token) != eos_ids_.end();
  const bool is_told = event.finish == FinishReason::kStop && event.stop_token >= 0;
  if (is_told && (!is_models_own || fields_.ignore_eos)) output.stop_reason = event.stop_token;
}

}  // namespace fasteep
