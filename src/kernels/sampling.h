#pragma once
// From logits to a token: pure, counter-based, so a migrated or recomputed request draws the same.
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace fasteep {

struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy
  float top_p = 1.0f;        // (0, 1]
  int top_k = 0;             // 0: off
  float min_p = 0.0f;        // [0, 1]
  uint64_t seed = 0;
  int num_logprobs =
      -1;  // -1: none; n: the chosen token's and the n best (raw, before temperature)
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

struct Sample {
  TokenId token = 0;
  float logprob = 0;              // of the chosen token, if asked for
  std::vector<TokenLogprob> top;  // best first, if asked for
};

// logits: [vocab_size]; ids >= usable_vocab are padding rows and never chosen. position: index of
// the token being drawn in the whole sequence (prompt included): it keys the random number with the
// seed. Order: temperature, top-k (keeps ties with the k-th), top-p (smallest prefix of the
// descending order reaching p, at least one; ties by lowest id), min-p, softmax, draw. Greedy:
// lowest id of the largest logit. Probabilities are summed exactly (as integers, in units of 2^-43
// of the largest): the result depends on no order of summation and on no instruction set. A NaN
// counts as -infinity. Threads: any, several at once; keeps its scratch per thread.
Sample sample(std::span<const float> logits, int usable_vocab, const SamplingParams& params,
              int64_t position);

}  // namespace fasteep
