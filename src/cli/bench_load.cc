#include "cli/bench_load.h"

#include <algorithm>

namespace fasteep {

// What one measurement saw: when each token came, stream by stream.
struct BenchLoad::Run {
  std::vector<std::vector<TimePoint>> tokens;
  int open = 0;
  std::optional<Error> error;
};

GenerateRequest BenchLoad::request(int prompt_tokens, int max_tokens) {
  GenerateRequest request;
  for (int i = 0; i < prompt_tokens; ++i) {
    request.prompt.push_back(static_cast<TokenId>(rng_.below(static_cast<uint64_t>(vocab_size_))));
  }
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

Result<void> BenchLoad::submit(Run& run, GenerateRequest request) {
  const size_t index = run.tokens.size();
  run.tokens.emplace_back();
  const auto on_event = [this, &run, index](const StreamEvent& event) {
    run.tokens[index].insert(run.tokens[index].end(), event.tokens.size(), clock_.now());
    if (event.error) run.error = event.error;
    if (event.finish) --run.open;
  };
  FASTEEP_TRY([[maybe_unused]] const RequestId id, engine_.submit(std::move(request), on_event));
  ++run.open;
  return {};
}

Result<void> BenchLoad::run_until_done(const Run& run) {
  const TimePoint deadline = clock_.now() + std::chrono::minutes(10);
  while (run.open > 0 && !run.error) {
    loop_.run_one_for(std::chrono::seconds(1));
    if (clock_.now() > deadline)
      return Error(ErrorCode::kTimeout, "the measurement took 10 minutes");
  }
  if (run.error) return *run.error;
  return {};
}

Result<double> BenchLoad::decode_rate(int sequences, int tokens, int prompt_tokens) {
  Run run;
  run.tokens.reserve(static_cast<size_t>(sequences));
  for (int i = 0; i < sequences; ++i) FASTEEP_TRY_VOID(submit(run, request(prompt_tokens, tokens)));
  FASTEEP_TRY_VOID(run_until_done(run));
  TimePoint begin{}, end = TimePoint::max();
  for (const auto& times : run.tokens) {
    begin = std::max(begin, times.at(1));
    end = std::min(end, times.back());
  }
  int64_t counted = 0;
  for (const auto& times : run.tokens) {
    counted += std::count_if(times.begin(), times.end(),
                             [&](TimePoint t) { return t > begin && t <= end; });
  }
  if (end <= begin)
    return invalid_input("{} tokens are too few to measure {} sequences together", tokens,
                         sequences);
  return static_cast<double>(counted) / seconds(end - begin);
}

Result<double> BenchLoad::prefill_seconds(int tokens) {
  Run run;
  const TimePoint begin = clock_.now();
  FASTEEP_TRY_VOID(submit(run, request(tokens, 1)));
  FASTEEP_TRY_VOID(run_until_done(run));
  return seconds(run.tokens[0].at(0) - begin);
}

}  // namespace fasteep
