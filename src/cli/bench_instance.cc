#include "cli/bench_instance.h"

namespace fasteep {

Result<std::unique_ptr<BenchInstance>> BenchInstance::start(const EngineOptions& options,
                                                            uint64_t seed) {
  std::unique_ptr<BenchInstance> instance(new BenchInstance());
  FASTEEP_TRY(instance->controller_, Controller::create(instance->loop_, options));
  std::optional<Result<void>> started;
  instance->controller_->start({}, [&](Result<void> result) { started = std::move(result); });
  while (!started) instance->loop_.run_one();
  if (!started->has_value()) return started->error();
  instance->load_.emplace(instance->loop_, *instance->controller_,
                          instance->plan().config.vocab_size, system_clock(), Rng(seed));
  return instance;
}

}  // namespace fasteep
