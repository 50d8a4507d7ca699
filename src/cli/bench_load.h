#pragma once
// Offline load on an engine, no HTTP: decode rates and prefill times of distinct random prompts
// (equal ones would route to the same experts and flatter the result).
#include <boost/asio/io_context.hpp>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/engine.h"

namespace fasteep {

// Threads: one; it runs the io_context that the engine lives on.
class BenchLoad {
 public:
  BenchLoad(boost::asio::io_context& loop, Engine& engine, int vocab_size, const Clock& clock,
            Rng rng)
      : loop_(loop), engine_(engine), vocab_size_(vocab_size), clock_(clock), rng_(rng) {}

  // Tokens per second of `sequences` greedy requests of `tokens` tokens each, counted while all of
  // them decode: from the last one's second token to the first one's end.
  Result<double> decode_rate(int sequences, int tokens, int prompt_tokens);

  // Seconds from submitting one prompt to its first token.
  Result<double> prefill_seconds(int tokens);

 private:
  struct Run;
  GenerateRequest request(int prompt_tokens, int max_tokens);
  Result<void> submit(Run& run, GenerateRequest request);
  Result<void> run_until_done(const Run& run);

  boost::asio::io_context& loop_;
  Engine& engine_;
  int vocab_size_;
  const Clock& clock_;
  Rng rng_;
};

}  // namespace fasteep
