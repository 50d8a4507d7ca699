#pragma once
// One HTTP request's work in the engine: a child request for each choice, ended all together.
#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "server/completion_stream.h"
#include "server/openai_response.h"
#include "server/prepared_request.h"
#include "server/server_metrics.h"

namespace fasteep {

// Threads: the engine's. Shared because a stop string cancels a child by a posted handler, which
// may find the job gone.
class GenerationJob : public std::enable_shared_from_this<GenerationJob> {
 public:
  // Called for what each choice gains, and once more (with index -1) when the job has ended with
  // an error.
  using Sink = std::function<void(int index, const ChoiceOutput& delta)>;

  struct Context {
    boost::asio::any_io_executor executor;
    Engine& engine;
    const ServedModel& model;
    ServerMetrics& metrics;
  };

  // `request` outlives the job.
  static std::shared_ptr<GenerationJob> create(const Context& context,
                                               const PreparedRequest& request, Sink sink);
  ~GenerationJob() { cancel(); }
  GenerationJob(const GenerationJob&) = delete;
  GenerationJob& operator=(const GenerationJob&) = delete;

  // Submits all choices or none. Errors: the engine's.
  Result<void> start();
  // Ends what still runs; the sink hears nothing more. Not from inside the engine's streams.
  void cancel();

  bool is_finished() const { return num_finished_ == children_.size() || error_.has_value(); }
  const std::optional<Error>& error() const { return error_; }
  Usage usage() const;

 private:
  struct Child {
    explicit Child(const GenerationFields& fields, const ServedModel& model)
        : stream(fields, model) {}
    CompletionStream stream;
    std::optional<RequestId> running;  // in the engine
    TimePoint last_event;
    bool ended = false;
  };

  GenerationJob(const Context& context, const PreparedRequest& request, Sink sink);
  GenerateRequest engine_request(int index) const;
  void on_event(int index, const StreamEvent& event);
  void measure(Child& child, const StreamEvent& event);
  void end_child(Child& child, FinishReason reason);
  void fail(const Error& error);
  void cancel_soon();
  void cancel_children(bool (*is_due)(const Child& child));

  Context context_;
  const PreparedRequest& request_;
  Sink sink_;
  TimePoint arrival_;
  std::vector<std::unique_ptr<Child>> children_;  // choice i % n of prompt i / n
  size_t num_finished_ = 0;
  std::optional<Error> error_;
};

}  // namespace fasteep
