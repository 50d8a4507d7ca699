#pragma once
// All that a rank computes with, loaded: memory, kernels, exchange, model, scheduler.
#include <memory>

#include "base/clock.h"
#include "exchange/exchange.h"
#include "memory/expert_slots.h"
#include "memory/kv_blocks.h"
#include "memory/ledger.h"
#include "model/model.h"
#include "model/model_config.h"
#include "model/replicated_weights.h"
#include "rank/rank_settings.h"
#include "scheduler/scheduler.h"
#include "transport/descriptor.h"

namespace fasteep {

// phase: "replicated weights", "experts"; bytes of that phase.
using RankProgress = std::function<void(std::string_view phase, size_t done, size_t total)>;

// Threads: the step thread.
class RankCore {
 public:
  // Loads the replicated weights and the experts that `view` gives this rank.
  // Errors: kInvalidInput (checkpoint), kExhausted (memory), kIo.
  static Result<std::unique_ptr<RankCore>> load(const RankSettings& settings, Descriptor window,
                                                Descriptor doorbell, const View& view,
                                                const Clock& clock, const RankProgress& progress);

  const ModelConfig& config() const { return config_; }
  Kernels& kernels() { return *kernels_; }
  Exchange& exchange() { return *exchange_; }
  Model& model() { return *model_; }
  Scheduler& scheduler() { return *scheduler_; }
  // Granted by the ledger.
  const DeviceLedger& ledger() const { return ledger_; }
  int usable_vocab() const { return usable_vocab_; }
  int num_slots() const { return slots_->num_slots(); }
  int num_kv_blocks() const { return kv_->num_blocks(); }

 private:
  RankCore(const RankSettings& settings, ModelConfig config);
  Result<void> build(const RankSettings& settings, Descriptor window, Descriptor doorbell,
                     const Clock& clock);
  Result<void> load_weights(const RankSettings& settings, const View& view,
                            const RankProgress& progress);
  Result<void> load_experts(const WeightSource& source, const RankSettings& settings,
                            const View& view, const RankProgress& progress);
  Result<void> build_model(const RankSettings& settings);

  // In the order of their birth: each is used by those below it.
  ModelConfig config_;
  int usable_vocab_;  // token ids below it may be sampled
  DeviceLedger ledger_;
  ThreadPool pool_;
  std::unique_ptr<Kernels> kernels_;
  std::optional<ExpertSlots> slots_;
  std::unique_ptr<Exchange> exchange_;
  std::optional<KvBlocks> kv_;
  std::optional<ReplicatedWeights> weights_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace fasteep
