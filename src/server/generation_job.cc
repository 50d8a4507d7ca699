#include "server/generation_job.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace fasteep {

std::shared_ptr<GenerationJob> GenerationJob::create(const Context& context,
                                                     const PreparedRequest& request, Sink sink) {
  return std::shared_ptr<GenerationJob>(new GenerationJob(context, request, std::move(sink)));
}

GenerationJob::GenerationJob(const Context& context, const PreparedRequest& request, Sink sink)
    : context_(context), request_(request), sink_(std::move(sink)), arrival_(system_clock().now()) {
  const size_t num_choices = request.prompts.size() * request.fields.n;
  for (size_t i = 0; i < num_choices; ++i)
    children_.push_back(std::make_unique<Child>(request.fields, context.model));
}

GenerateRequest GenerationJob::engine_request(int index) const {
  const GenerationFields& fields = request_.fields;
  const int prompt = index / fields.n;
  GenerateRequest request;
  request.prompt = request_.prompts[prompt];
  request.sampling = fields.sampling;
  request.sampling.seed += static_cast<uint64_t>(index % fields.n);
  request.max_tokens = request_.max_tokens[prompt];
  request.stop_token_ids = fields.stop_token_ids;
  request.ignore_eos = fields.ignore_eos;
  request.logits_digest = fields.return_logits_digest;
  return request;
}

Result<void> GenerationJob::start() {
  for (size_t i = 0; i < children_.size(); ++i) {
    const int index = static_cast<int>(i);
    auto id = context_.engine.submit(
        engine_request(index), [this, index](const StreamEvent& event) { on_event(index, event); });
    if (!id) {
      cancel();
      return id.error();
    }
    children_[i]->running = *id;
  }
  for (const auto& prompt : request_.prompts)
    context_.metrics.on_prompt(static_cast<int64_t>(prompt.size()));
  return {};
}

void GenerationJob::on_event(int index, const StreamEvent& event) {
  Child& child = *children_[index];
  if (child.ended) return;  // a stop string ended it and its cancellation is on the way
  if (event.finish) child.running.reset();
  if (event.finish == FinishReason::kError)
    return fail(event.error.value_or(Error(ErrorCode::kIo, "the engine gave no reason")));
  measure(child, event);
  const ChoiceOutput delta = child.stream.push(event);
  if (child.stream.is_finished()) {
    end_child(child, *delta.finish);
    if (child.running) cancel_soon();
  }
  sink_(index, delta);
}

void GenerationJob::measure(Child& child, const StreamEvent& event) {
  if (event.tokens.empty()) return;
  const TimePoint now = system_clock().now();
  const auto num_tokens = static_cast<int64_t>(event.tokens.size());
  context_.metrics.on_tokens(num_tokens);
  if (child.stream.num_tokens() == 0) {
    context_.metrics.on_first_token(seconds(now - arrival_));
  } else {
    context_.metrics.on_more_tokens(num_tokens, seconds(now - child.last_event));
  }
  child.last_event = now;
}

void GenerationJob::end_child(Child& child, FinishReason reason) {
  child.ended = true;
  ++num_finished_;
  context_.metrics.on_finish(reason, seconds(system_clock().now() - arrival_));
}

// The first error ends all choices: a client hears exactly one.
void GenerationJob::fail(const Error& error) {
  error_ = error;
  for (auto& child : children_)
    if (!child->ended) end_child(*child, FinishReason::kError);
  cancel_soon();
  sink_(-1, {});
}

// The engine is calling us: it is told after it has returned.
void GenerationJob::cancel_soon() {
  boost::asio::post(context_.executor, [weak = weak_from_this()] {
    if (const auto self = weak.lock())
      self->cancel_children([](const Child& child) { return child.ended; });
  });
}

void GenerationJob::cancel() {
  cancel_children([](const Child&) { return true; });
}

void GenerationJob::cancel_children(bool (*is_due)(const Child& child)) {
  for (auto& child : children_) {
    if (!child->running || !is_due(*child)) continue;
    context_.engine.cancel(*std::exchange(child->running, std::nullopt));
    if (!child->ended) end_child(*child, FinishReason::kCancelled);
  }
}

Usage GenerationJob::usage() const {
  Usage usage;
  for (size_t i = 0; i < children_.size(); ++i) {
    const bool is_first_of_prompt = i % request_.fields.n == 0;
    usage.completion_tokens += children_[i]->stream.num_tokens();
    if (!is_first_of_prompt) continue;
    usage.prompt_tokens += static_cast<int64_t>(request_.prompts[i / request_.fields.n].size());
    usage.cached_tokens += children_[i]->stream.cached_prompt_tokens();
  }
  return usage;
}

}  // namespace fasteep
