#pragma once
// What the server may ask of a running instance. The controller (controller.h) implements it; tests
// put a scripted one in its place.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/sampling.h"

namespace fasteep {

struct GenerateRequest {
  std::vector<TokenId> prompt;  // at least one; each < vocab_size
  SamplingParams sampling;      // seed always set: the server draws one if the client did not
  int max_tokens = 16;          // >= 1; prompt + max_tokens <= max_model_len
  std::vector<TokenId> stop_token_ids;  // end the request; the stop token itself is delivered
  bool ignore_eos = false;              // go on past the model's own stop ids
  bool logits_digest = false;           // each token carries xxh64 of its logits' bits (for tests)
};

enum class FinishReason { kStop, kLength, kCancelled, kError };
std::string_view to_string(FinishReason reason);  // vLLM's words: stop, length, abort, error

struct GeneratedToken {
  Sample sample;
  uint64_t logits_digest = 0;
};

// What a stream hears, in order, each position once; the last event has `finish`.
struct StreamEvent {
  std::vector<GeneratedToken> tokens;  // may be empty in the last event
  std::optional<FinishReason> finish;
  std::optional<Error> error;    // with kError: kPeerLost, kUnavailable, ...
  TokenId stop_token = -1;       // with kStop: the token that ended it
  int cached_prompt_tokens = 0;  // taken from the prefix cache; final in the last event
};

struct RankStatus {
  RankId rank;
  Incarnation incarnation;
  int pid = 0;
  std::string state;  // "starting", "shadow", "active", "leaving", "dead"
  Epoch adopted_epoch;
  int running = 0, waiting = 0;  // requests
  int64_t kv_tokens = 0, kv_tokens_used = 0;
  int slots = 0;
  std::vector<std::pair<std::string, int64_t>> bytes_by_tag;     // granted to its pools
  std::vector<std::pair<std::string, int64_t>> resident_by_tag;  // in its memory files, by the
                                                                 // kernel; in ElasticState only
};

struct EngineStatus {
  bool ready = false;  // serving
  bool draining = false;
  std::string not_ready_reason;  // e.g. "rank 2 died (signal 9); its experts have no replica"
  Epoch epoch;
  std::vector<RankStatus> ranks;
  int running = 0, waiting = 0;  // over all ranks
};

// Threads: every member is called on the engine's executor thread (the io_context that the server
// runs on as well), and streams are called back there, never from inside submit() or cancel().
class Engine {
 public:
  using Stream = std::function<void(const StreamEvent&)>;
  virtual ~Engine() = default;

  // Accepts a request: its stream hears events until one has `finish`, whatever happens.
  // Errors: kExhausted (queue full, retry after a second), kInvalidInput, kUnavailable (starting,
  // draining, or experts without a live replica), kPeerLost.
  virtual Result<RequestId> submit(GenerateRequest request, Stream stream) = 0;

  // Stops a request; its KV is free within one step. Its stream hears nothing more. Unknown or
  // finished ids are ignored.
  virtual void cancel(RequestId id) = 0;

  virtual EngineStatus status() const = 0;
  // Prometheus text of the engine's and the ranks' metrics.
  virtual std::string metrics_text() const = 0;
};

}  // namespace fasteep
