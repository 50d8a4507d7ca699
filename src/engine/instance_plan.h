#pragma once
// All decisions of a start, made before any rank runs: types, instruction set, memory, cores, the
// first view.
#include <string>
#include <vector>

#include "engine/engine_options.h"
#include "engine/machine.h"
#include "model/generation_config.h"
#include "model/memory_plan.h"
#include "model/model_config.h"
#include "rank/rank_settings.h"

namespace fasteep {

struct InstancePlan {
  ModelConfig config;
  GenerationConfig generation;
  DType dtype = DType::kBFloat16;
  int max_model_len = 0;
  ViewPtr first_view;
  std::vector<RankSettings> ranks;
  size_t window_bytes = 0;
  MemoryPlan memory;  // of the rank with most experts
};

// Reads the configs and checks the checkpoint's tensors, so that what is wrong is said once and
// before loading. Errors: kInvalidInput (a setting or the model), kExhausted (memory), kIo.
Result<InstancePlan> plan_instance(const EngineOptions& options, const Machine& machine);

}  // namespace fasteep
