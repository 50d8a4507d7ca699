#pragma once
// A whole instance under test: a controller in this process and real rank processes, which are this
// test program run as `PROGRAM rank --control-fd N`.
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/controller.h"

namespace fasteep {

inline constexpr char kFixture[] = FASTEEP_SOURCE_DIR "/tests/fixtures/qwen3_moe";
inline constexpr char kTiny[] = FASTEEP_SOURCE_DIR "/models/fasteep-tiny";

// What one stream heard.
struct Outcome {
  std::vector<TokenId> tokens;
  std::vector<uint64_t> digests;
  int ends = 0;
  FinishReason finish = FinishReason::kError;
  std::optional<Error> error;
  int cached_prompt_tokens = 0;
  bool operator==(const Outcome& other) const {  // of what must not depend on the instance
    return tokens == other.tokens && digests == other.digests && finish == other.finish;
  }
};

inline EngineOptions options_for(const std::string& model, int num_ranks) {
  EngineOptions options;
  options.model = model;
  options.num_ranks = num_ranks;
  options.threads_per_rank = 1;
  options.pin_threads = false;  // tests share the machine
  options.kernel_isa = "portable";
  options.device_memory = int64_t{64} << 20;
  return options;
}

class Instance {
 public:
  explicit Instance(const EngineOptions& options) {
    auto created = Controller::create(loop_, options);
    if (!created) {
      error_ = created.error();
      return;
    }
    controller_ = std::move(*created);
    bool done = false;
    controller_->start({}, [&](Result<void> started) {
      if (!started) error_ = started.error();
      done = true;
    });
    run_until([&] { return done; });
  }

  const std::optional<Error>& error() const { return error_; }
  Controller& controller() { return *controller_; }

  // Runs the event loop until it holds. False after a minute or two: something hangs.
  template <class Condition>
  bool run_until(Condition condition) {
    const TimePoint deadline = system_clock().now() + std::chrono::seconds(120);
    while (!condition()) {
      if (system_clock().now() > deadline) {
        ADD_FAILURE() << "something hangs";
        return false;
      }
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(50));
    }
    return true;
  }

  // The outcome fills while the event loop runs; it must live until the stream has ended.
  Result<RequestId> submit(GenerateRequest request, Outcome& outcome) {
    return controller_->submit(std::move(request), [&outcome](const StreamEvent& event) {
      for (const GeneratedToken& token : event.tokens) {
        outcome.tokens.push_back(token.sample.token);
        outcome.digests.push_back(token.logits_digest);
      }
      outcome.cached_prompt_tokens = event.cached_prompt_tokens;
      if (event.error) outcome.error = event.error;
      if (!event.finish) return;
      outcome.finish = *event.finish;
      ++outcome.ends;
    });
  }

  std::vector<Outcome> run_together(const std::vector<GenerateRequest>& requests) {
    std::vector<Outcome> outcomes(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto id = submit(requests[i], outcomes[i]);
      EXPECT_TRUE(id) << id.error().message();
    }
    run_until(
        [&] { return std::ranges::all_of(outcomes, [](const Outcome& o) { return o.ends > 0; }); });
    return outcomes;
  }

  std::vector<Outcome> run_alone(const std::vector<GenerateRequest>& requests) {
    std::vector<Outcome> outcomes;
    for (const GenerateRequest& request : requests) {
      outcomes.push_back(run_together({request}).front());
    }
    return outcomes;
  }

  bool drain() {
    bool done = false;
    controller_->drain([&] { done = true; });
    return run_until([&] { return done; });
  }

  // A metric's samples, summed, as the ranks report it when asked now.
  double metric(const std::string& name) {
    const std::string text = controller_->metrics_text();
    double sum = 0;
    for (size_t at = text.find("\n" + name); at != text.npos; at = text.find("\n" + name, at + 1)) {
      const size_t end = text.find('\n', at + 1);
      sum += std::stod(text.substr(text.rfind(' ', end)));
    }
    return sum;
  }

 private:
  boost::asio::io_context loop_{1};
  std::unique_ptr<Controller> controller_;
  std::optional<Error> error_;
};

}  // namespace fasteep
