#pragma once
// What the server may ask of an instance that resizes. The controller implements it; tests put a
// scripted one in its place.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "elastic/resize_plan.h"
#include "engine/engine.h"

namespace fasteep {

// How a request leaves a rank. kAuto: by the cost model.
enum class KvMove { kAuto, kFinish, kMigrate, kSwap, kRecompute };
std::string_view to_string(KvMove method);

struct ElasticRequest {
  ResizeRequest resize;
  std::string operation_id;               // empty: one is made up
  std::optional<double> drain_timeout_s;  // requests may finish on a leaving rank for so long
};

enum class OperationOutcome { kRunning, kSucceeded, kRolledBack };
std::string_view to_string(OperationOutcome outcome);  // "running", "succeeded", "rolled_back"

struct OperationPhase {
  std::string name;                   // to_string(ResizePhase), and within prepare the steps
  double started_s = 0, seconds = 0;  // since the operation began
  int64_t bytes = 0;
};

struct AdoptionLag {
  RankId rank;
  double seconds = 0;  // from the view's publication
  double step_s = 0;   // the rank's step that was under way then took so long
};

struct OperationStatus {
  std::string id;
  std::string kind;  // "start", "grow", "shrink", "replace", "rebalance"
  OperationOutcome outcome = OperationOutcome::kRunning;
  std::string phase;  // of ResizePhase
  std::optional<Error> error;
  int ranks_before = 0, ranks_after = 0;
  std::vector<RankId> joined, retired;
  Epoch epoch_before, epoch_after;
  double unix_time = 0;  // of its beginning
  double seconds = 0;    // so far, or in all
  std::vector<OperationPhase> phases;
  std::map<std::string, int64_t> bytes_moved;    // by tag
  std::map<std::string, int64_t> bytes_planned;  // by tag
  std::map<std::string, int> requests_moved;     // by method
  std::vector<AdoptionLag> adoptions;
  double longest_token_gap_s = 0;  // of any stream while it ran
  double estimated_s = 0;
  bool is_blocking = false;
};

struct ElasticState {
  std::string instance_id;
  bool ready = false;
  Epoch epoch;
  std::vector<RankStatus> ranks;
  std::optional<OperationStatus> operation;  // the running one
  FeasibleSizes feasible;
  int max_ranks = 0;
};

struct ExpertPlacement {
  LayerId layer;
  ExpertId expert;
  std::vector<Replica> replicas;
  uint64_t load = 0;  // rows since the start, over all ranks
};

struct ElasticEvent {
  uint64_t sequence = 0;  // from 1
  std::string type;       // "operation", "phase", "view", "adopted", "rank", "request_moved"
  std::string json;       // one object, with operation_id where there is one
};

// Threads: as of Engine.
class Elastic {
 public:
  virtual ~Elastic() = default;

  // What a resize would do. Errors as of plan_resize().
  virtual Result<ResizePlan> plan(const ResizeRequest& request) const = 0;

  // Begins a resize, or finds the operation with that id (running or over). Errors: those of the
  // plan; kBusy (another one runs: its id is in the message), kUnavailable (starting, ending).
  // `on_over` is called once when the operation is over, at once from the loop if it is.
  using OnOver = std::function<void(const OperationStatus&)>;
  virtual Result<OperationStatus> resize(ElasticRequest request, OnOver on_over = nullptr) = 0;
  // Errors: kNotFound, kInvalidInput (over, or published already: it can only go on).
  virtual Result<void> abort(const std::string& operation_id) = 0;

  virtual ElasticState elastic_state() const = 0;
  virtual std::vector<OperationStatus> operations() const = 0;                 // newest first
  virtual Result<OperationStatus> operation(const std::string& id) const = 0;  // kNotFound
  virtual std::vector<ExpertPlacement> placement() const = 0;

  // Hears every event from `after` on (those of the past that are still kept, too) until the
  // returned token is destroyed.
  virtual std::shared_ptr<void> subscribe(uint64_t after,
                                          std::function<void(const ElasticEvent&)> listener) = 0;
};

}  // namespace fasteep
