#pragma once
// What `fasteep model inspect` prints: what a model folder holds, what is wrong with it, what a
// rank would need.
#include <string>
#include <vector>

#include "base/result.h"
#include "model/weight_source.h"

namespace fasteep {

struct ParameterCount {
  int64_t total = 0;
  int64_t active = 0;  // used by one token: top_k of the experts
};
ParameterCount count_parameters(const ModelConfig& config);

struct Inspection {
  std::string report;                 // lines "name   value"
  std::vector<std::string> problems;  // what keeps the model from being served; also in the report
};

// Error only if the folder has no config.json that can be read as a supported model.
Result<Inspection> inspect_model(const std::string& folder);

}  // namespace fasteep
