#include "rank/rank_core.h"

#include <algorithm>

#include "model/checkpoint.h"
#include "model/weight_source.h"

namespace fasteep {
namespace {

constexpr int kExpertsPerThread = 4;  // loaded between two reports of progress

constexpr int kSpinUs = 50;

struct ExpertToLoad {
  ExpertKey key;
  SlotId slot;
};

}  // namespace

RankCore::RankCore(const RankSettings& settings, ModelConfig config)
    : config_(std::move(config)),
      usable_vocab_(settings.usable_vocab > 0 ? std::min(settings.usable_vocab, config_.vocab_size)
                                              : config_.vocab_size),
      ledger_(settings.device_memory_bytes),
      pool_(settings.threads, settings.cpus, settings.may_spin ? kSpinUs : 0),
      kernels_(std::make_unique<Kernels>(settings.isa, pool_)) {}

Result<std::unique_ptr<RankCore>> RankCore::load(const RankSettings& settings, Descriptor window,
                                                 Descriptor doorbell, const View& view,
                                                 const Clock& clock, const RankProgress& progress) {
  FASTEEP_TRY(ModelConfig config, load_config(settings.model_folder));
  std::unique_ptr<RankCore> core(new RankCore(settings, std::move(config)));
  FASTEEP_TRY_VOID(core->build(settings, std::move(window), std::move(doorbell), clock));
  FASTEEP_TRY_VOID(core->load_weights(settings, view, progress));
  FASTEEP_TRY_VOID(core->build_model(settings));
  return core;
}

Result<void> RankCore::build(const RankSettings& settings, Descriptor window, Descriptor doorbell,
                             const Clock& clock) {
  const size_t slot_bytes = ffn_size_bytes(config_.expert_shape(settings.dtype));
  FASTEEP_TRY(slots_, ExpertSlots::create(settings.num_slots, slot_bytes, ledger_));
  FASTEEP_TRY(exchange_, Exchange::create(exchange_options(settings, config_), window.release(),
                                          doorbell.release(), *slots_, *kernels_, clock));
  const KvShape shape = config_.kv_shape(settings.dtype, settings.scheduler.block_tokens);
  FASTEEP_TRY(kv_, KvBlocks::create(settings.scheduler.num_blocks, config_.num_layers,
                                    shape.layer_block_bytes(), ledger_));
  return {};
}

Result<void> RankCore::load_weights(const RankSettings& settings, const View& view,
                                    const RankProgress& progress) {
  FASTEEP_TRY(const Checkpoint checkpoint, Checkpoint::open(settings.model_folder));
  FASTEEP_TRY(const WeightSource source, WeightSource::create(checkpoint, config_));
  const auto report = [&](size_t done, size_t total) {
    progress("replicated weights", done, total);
  };
  FASTEEP_TRY(weights_, ReplicatedWeights::load(source, settings.dtype, ledger_, report));
  return load_experts(source, settings, view, progress);
}

Result<void> RankCore::load_experts(const WeightSource& source, const RankSettings& settings,
                                    const View& view, const RankProgress& progress) {
  std::vector<ExpertToLoad> experts;
  for (const auto& [layer, expert] : view.experts_of(settings.rank)) {
    FASTEEP_TRY(const SlotId slot, slots_->acquire());
    experts.push_back({{layer, expert}, slot});
  }
  const size_t expert_bytes = expert_source_bytes(source);
  const size_t batch = static_cast<size_t>(kExpertsPerThread * pool_.num_threads());
  for (size_t first = 0; first < experts.size(); first += batch) {
    const size_t end = std::min(first + batch, experts.size());
    pool_.parallel_for(static_cast<int64_t>(end - first), 1, [&](int64_t from, int64_t to, int) {
      for (int64_t i = from; i < to; ++i) {
        const ExpertToLoad& next = experts[first + static_cast<size_t>(i)];
        load_expert(source, settings.dtype, next.key, slots_->data(next.slot));
      }
    });
    progress("experts", end * expert_bytes, experts.size() * expert_bytes);
  }
  for (const ExpertToLoad& loaded : experts) slots_->publish(loaded.slot, loaded.key);
  return {};
}

Result<void> RankCore::build_model(const RankSettings& settings) {
  FASTEEP_TRY(Workspace workspace,
              Workspace::create(config_, settings.scheduler.max_num_batched_tokens, ledger_));
  model_ = std::make_unique<Model>(config_, *weights_, *kernels_, *exchange_, *kv_,
                                   std::move(workspace));
  scheduler_ = std::make_unique<Scheduler>(settings.scheduler);
  return {};
}

}  // namespace fasteep
