#pragma once
// A checkpoint that holds exactly the weights a config asks for, reached by role instead of by
// name.
#include <string>
#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/family.h"
#include "model/model_config.h"

namespace fasteep {

enum class ExpertLayout : uint8_t { kPerExpert, kFused };
std::string_view to_string(ExpertLayout layout);

// One tensor that the checkpoint must hold.
struct ExpectedTensor {
  WeightRole role;
  int layer = 0, expert = 0;
  std::string name;
  std::vector<int64_t> shape;
};
std::vector<int64_t> weight_shape(const ModelConfig& config, WeightRole role);
bool is_expert_role(WeightRole role);
// In layer order.
std::vector<ExpectedTensor> weight_plan(const ModelConfig& config, ExpertLayout layout);
// Told apart by name, never by shape.
ExpertLayout expert_layout(const Checkpoint& checkpoint, const ModelConfig& config);

// Everything that is wrong with a checkpoint, at once.
struct WeightProblems {
  std::vector<std::string> missing, unknown, wrong;  // tensor names; wrong ones with the reason
  bool empty() const { return missing.empty() && unknown.empty() && wrong.empty(); }
  std::string text() const;  // at most 50 names of each kind, and how many more
};
WeightProblems compare_weights(const Checkpoint& checkpoint, const ModelConfig& config);

// Row-major matrices [intermediate, hidden], [intermediate, hidden], [hidden, intermediate].
struct ExpertTensors {
  TensorView gate, up, down;
};

// Threads: any. The checkpoint and the config outlive it.
class WeightSource {
 public:
  // Error kInvalidInput with WeightProblems::text().
  static Result<WeightSource> create(const Checkpoint& checkpoint, const ModelConfig& config);

  const ModelConfig& config() const { return *config_; }
  ExpertLayout layout() const { return layout_; }
  const TensorView& tensor(WeightRole role, int layer = 0, int expert = 0) const;
  ExpertTensors expert(int layer, int expert) const;

 private:
  WeightSource(const Checkpoint& checkpoint, const ModelConfig& config, ExpertLayout layout)
      : checkpoint_(&checkpoint), config_(&config), layout_(layout) {}
  const Checkpoint* checkpoint_;
  const ModelConfig* config_;
  ExpertLayout layout_;
};

}  // namespace fasteep
