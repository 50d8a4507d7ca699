#pragma once
// What a Scheduler consists of. scheduler.cc plans and commits; scheduler_moves.cc has what
// requests that move between ranks and a changing number of blocks need.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "scheduler/block_manager.h"
#include "scheduler/held_blocks.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace fasteep {

inline int ceil_div(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

// A sequence and how many rows it gets in the step being planned.
struct Grant {
  Sequence* sequence;
  int rows;
  bool is_decode;
};

// A sequence is waiting (holds no block), running or parked. Admission goes by arrival, and
// preemption takes the youngest running one back to its place in the queue. What waits is younger
// than what runs, but for parked sequences that were resumed.
struct Scheduler::State {
  explicit State(const SchedulerOptions& options);

  Result<void> check_request(const SequenceRequest& request) const;
  Result<void> check_fits(const SequenceRequest& request) const;
  // That a request may come to need, alone.
  int blocks_needed(int64_t prompt_tokens, int max_tokens) const;

  int longest_chunk() const {
    return options.prefill_chunk > 0 ? options.prefill_chunk : options.max_num_batched_tokens;
  }
  int most_running() const {
    return std::min(options.max_num_seqs, options.max_num_batched_tokens);
  }
  int num_with_blocks() const { return static_cast<int>(running.size() + parked.size()); }
  int watermark() const;  // blocks that must stay available when somebody takes some for the first

  // ---- planning ----
  bool grant_running(std::vector<Grant>& grants);
  int take_blocks(Sequence& sequence, int rows);
  void preempt_youngest();
  void enter_running(Sequence& sequence);
  void admit(std::vector<Grant>& grants);
  int try_admit(Sequence& sequence, int rows_left);
  void count_first_admission(const Sequence& sequence, int prefix_tokens);

  Sequence* in_flight_sequence(size_t index);
  std::optional<SequenceUpdate> advance(Sequence& sequence, const PlannedSequence& rows,
                                        TokenId sample);
  void remove(Sequence& sequence);
  void check_in_flight(const StepPlan& plan);

  // ---- moving ----
  void check_between_steps(const char* what) const;
  Result<Sequence*> find_with_blocks(RequestId id);
  Result<void> check_arriving(const SequenceRequest& request, int kv_tokens) const;
  void start_arriving(SequenceRequest request, int kv_tokens);
  void run_at_once(Sequence& sequence);
  std::unordered_set<BlockId> pinned_blocks() const;
  Result<void> check_limit(int num_blocks) const;

  SchedulerOptions options;  // num_blocks: as it is now
  BlockManager blocks;
  HeldBlocks held;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences;
  std::map<uint64_t, Sequence*> waiting;  // by arrival
  std::map<uint64_t, Sequence*> parked;   // by arrival
  std::vector<Sequence*> running;         // by arrival
  struct Flight {
    RequestId id;
    uint64_t arrival;  // tells a sequence from a later one with the same id
  };
  std::vector<Flight> in_flight;  // one for each planned sequence
  uint64_t next_arrival = uint64_t{1} << 32;
  uint64_t last_earlier_arrival = next_arrival;  // of those that came with their KV: counts down
  SchedulerStats stats;
};

}  // namespace fasteep
