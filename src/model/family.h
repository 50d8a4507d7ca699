#pragma once
// What differs between model families: extra config keys, tensor names, tensors that may be
// skipped. A new family is one new file, family_NAME.cc, and its line in families().
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/json_input.h"
#include "model/model_config.h"

namespace fasteep {

// The weights of the common layer skeleton. Layer and expert are given apart.
enum class WeightRole : uint8_t {
  kEmbedding,
  kFinalNorm,
  kLmHead,
  kInputNorm,
  kPostNorm,
  kQ,
  kK,
  kV,
  kO,
  kQBias,
  kKBias,
  kVBias,
  kOBias,
  kQNorm,
  kKNorm,
  kRouter,
  kDenseGate,
  kDenseUp,
  kDenseDown,
  kExpertGate,  // one tensor per expert
  kExpertUp,
  kExpertDown,
  kFusedGateUp,  // [experts, 2 * intermediate, hidden], gate first
  kFusedDown,    // [experts, hidden, intermediate]
};

struct Family {
  std::string_view model_type;    // of config.json
  std::string_view architecture;  // architectures[0]
  // Reads the family's own keys into `config`, whose common sizes are filled in already.
  Result<void> (*parse)(const JsonReader& reader, ModelConfig& config);
  std::string (*tensor_name)(WeightRole role, int layer, int expert);
  // Tensors that a checkpoint may hold and the engine does not need, by name.
  bool (*is_skipped)(const ModelConfig& config, std::string_view name);
};

std::span<const Family* const> families();
// nullptr if no family has this model_type.
const Family* find_family(std::string_view model_type);

}  // namespace fasteep
