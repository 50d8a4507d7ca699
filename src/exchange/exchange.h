#pragma once
// Runs the experts of one layer for a batch's rows, wherever they are: dispatches rows to the ranks
// that hold them, serves the calls of other ranks meanwhile, and sums what comes back.
//
// The five rules (docs/protocol.md): single writer, identity, held or refused, make before break
// and ask again, one committer. There are no collectives and no barriers.
#include <functional>
#include <memory>
#include <span>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/span2.h"
#include "kernels/kernels.h"
#include "memory/expert_slots.h"
#include "placement/view.h"

namespace fasteep {

struct ExchangeOptions {
  RankId rank;
  Incarnation incarnation;
  int max_ranks = 1;  // ranks that may ever be introduced, this one included; <= 127
  int max_rows = 0;   // rows of one layer call (max_num_batched_tokens)
  int top_k = 0;
  FfnShape shape;
  bool may_spin = true;  // false when there are more compute threads than cores: sleep at once
  // Longest wait for calls known to be near; never longer than half of a computation (gather.h).
  Duration gather_limit = std::chrono::milliseconds(20);
  Duration call_deadline =
      std::chrono::seconds(60);  // then the callee is reported and the step fails
};

// Descriptors of one rank's window, passed between processes by the controller.
struct PeerDescriptors {
  RankId rank;
  Incarnation incarnation;
  int window_fd = -1;    // read-only
  int doorbell_fd = -1;  // eventfd
};

struct ExchangeStats {  // counters since start
  uint64_t calls_sent = 0, calls_served = 0, rows_sent = 0, rows_served = 0, refusals = 0,
           reasked_rows = 0, late_answers_dropped = 0, gathers = 0, gather_timeouts = 0, sleeps = 0,
           layer_steps = 0;
};

// Threads: all members on the rank's step thread.
class Exchange {
 public:
  // window_fd: this rank's own window, writable, window_size_bytes(options) long, zero-filled;
  // doorbell_fd: its own eventfd. Both are taken over.
  static Result<std::unique_ptr<Exchange>> create(const ExchangeOptions& options, int window_fd,
                                                  int doorbell_fd, ExpertSlots& slots,
                                                  Kernels& kernels, const Clock& clock);
  static size_t window_size_bytes(const ExchangeOptions& options);
  ~Exchange();

  // Membership, as told by the controller.
  Result<void> connect(const PeerDescriptors& peer);  // maps its window; descriptors are taken over
  void disconnect(
      RankId rank,
      Incarnation incarnation);  // declared dead: never waited for again, its calls refused
  void see_view(ViewPtr view);   // newest seen; used for re-asking at once
  void adopt_newest();           // between steps
  Epoch adopted_epoch() const;
  Epoch newest_epoch() const;

  // Called whenever `fd` is readable during any wait (also inside run_layer): the rank's control
  // connection. It may call connect, disconnect, see_view and request_stop, nothing else of this
  // class.
  void watch_control(int fd, std::function<void()> on_readable);

  // Marks a step's beginning and end for the peers (they gather only for ranks that are on their
  // way; wait() tells them that no step follows).
  void begin_step();
  void end_step();

  // x[r, :] += sum_j weights[r, j] * expert(ids[r, j])(rows[r]) in top-k order, never arrival
  // order. rows: [num_rows, hidden] float32, rounded here to the model's type; ids, weights:
  // [num_rows, k]. Serves other ranks' calls until its own are answered. Errors: kPeerLost (an
  // expert has no live replica), kTimeout, kCancelled (stop was requested).
  Result<void> run_layer(LayerId layer, Span2<const float> rows, Span2<const int32_t> ids,
                         Span2<const float> weights, Span2<float> x);

  // Serves what is waiting. Returns whether there was anything.
  bool serve_pending();
  // Sleeps until a call, the control connection or the deadline wakes it; serves calls at once.
  void wait(TimePoint deadline);
  void request_stop();

  const ExchangeStats& stats() const;

 private:
  struct State;
  explicit Exchange(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fasteep
