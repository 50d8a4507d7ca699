#include "model/weight_source.h"

#include <unordered_set>

namespace fasteep {
namespace {

constexpr size_t kMaxNames = 50;  // in an error; a wrong config easily misses tens of thousands

std::vector<WeightRole> attention_roles(const ModelConfig& config) {
  std::vector<WeightRole> roles = {WeightRole::kInputNorm, WeightRole::kPostNorm, WeightRole::kQ,
                                   WeightRole::kK,         WeightRole::kV,        WeightRole::kO};
  if (config.attention_bias)
    roles.insert(roles.end(),
                 {WeightRole::kQBias, WeightRole::kKBias, WeightRole::kVBias, WeightRole::kOBias});
  if (config.qk_norm) roles.insert(roles.end(), {WeightRole::kQNorm, WeightRole::kKNorm});
  return roles;
}

class Planner {
 public:
  Planner(const ModelConfig& config, ExpertLayout layout) : config_(config), layout_(layout) {}

  std::vector<ExpectedTensor> plan() {
    add(WeightRole::kEmbedding);
    for (int i = 0; i < config_.num_layers; ++i) add_layer(i);
    add(WeightRole::kFinalNorm);
    if (!config_.tied_embeddings) add(WeightRole::kLmHead);
    return std::move(plan_);
  }

 private:
  void add(WeightRole role, int layer = 0, int expert = 0) {
    plan_.push_back({role, layer, expert, config_.family->tensor_name(role, layer, expert),
                     weight_shape(config_, role)});
  }
  void add_layer(int layer) {
    for (const WeightRole role : attention_roles(config_)) add(role, layer);
    if (config_.layers[layer] == LayerKind::kMoe) return add_moe(layer);
    for (const auto role : {WeightRole::kDenseGate, WeightRole::kDenseUp, WeightRole::kDenseDown})
      add(role, layer);
  }
  void add_moe(int layer) {
    add(WeightRole::kRouter, layer);
    if (layout_ == ExpertLayout::kFused) {
      add(WeightRole::kFusedGateUp, layer);
      return add(WeightRole::kFusedDown, layer);
    }
    for (int e = 0; e < config_.num_experts; ++e)
      for (const auto role :
           {WeightRole::kExpertGate, WeightRole::kExpertUp, WeightRole::kExpertDown})
        add(role, layer, e);
  }

  const ModelConfig& config_;
  ExpertLayout layout_;
  std::vector<ExpectedTensor> plan_;
};

void append_names(std::string& text, std::string_view kind, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += fmt::format("{}{} {}:", text.empty() ? "" : "; ", names.size(), kind);
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) text += " " + names[i];
  if (names.size() > kMaxNames) text += fmt::format(" and {} more", names.size() - kMaxNames);
}

// A matrix [rows, cols] inside a fused tensor, from row `first_row` of the flattened tensor on.
TensorView slice_rows(const TensorView& fused, int64_t first_row, int64_t rows, int64_t cols) {
  TensorView part = fused;
  const size_t row_bytes = static_cast<size_t>(cols) * (fused.type == StoredType::kF32 ? 4 : 2);
  part.shape = {rows, cols};
  part.bytes = fused.bytes.subspan(first_row * row_bytes, rows * row_bytes);
  return part;
}

}  // namespace

std::string_view to_string(ExpertLayout layout) {
  return layout == ExpertLayout::kFused ? "fused (one 3-D tensor per layer and projection)"
                                        : "one tensor per expert and projection";
}

bool is_expert_role(WeightRole role) {
  return role == WeightRole::kExpertGate || role == WeightRole::kExpertUp ||
         role == WeightRole::kExpertDown || role == WeightRole::kFusedGateUp ||
         role == WeightRole::kFusedDown;
}

std::vector<int64_t> weight_shape(const ModelConfig& config, WeightRole role) {
  const int64_t hidden = config.hidden_size, experts = config.num_experts;
  const int64_t q = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv = int64_t{config.num_kv_heads} * config.head_dim;
  switch (role) {
    case WeightRole::kEmbedding:
    case WeightRole::kLmHead:
      return {config.vocab_size, hidden};
    case WeightRole::kFinalNorm:
    case WeightRole::kInputNorm:
    case WeightRole::kPostNorm:
    case WeightRole::kOBias:
      return {hidden};
    case WeightRole::kQ:
      return {q, hidden};
    case WeightRole::kK:
    case WeightRole::kV:
      return {kv, hidden};
    case WeightRole::kO:
      return {hidden, q};
    case WeightRole::kQBias:
      return {q};
    case WeightRole::kKBias:
    case WeightRole::kVBias:
      return {kv};
    case WeightRole::kQNorm:
    case WeightRole::kKNorm:
      return {config.head_dim};
    case WeightRole::kRouter:
      return {experts, hidden};
    case WeightRole::kDenseGate:
    case WeightRole::kDenseUp:
      return {config.dense_intermediate, hidden};
    case WeightRole::kDenseDown:
      return {hidden, config.dense_intermediate};
    case WeightRole::kExpertGate:
    case WeightRole::kExpertUp:
      return {config.moe_intermediate, hidden};
    case WeightRole::kExpertDown:
      return {hidden, config.moe_intermediate};
    case WeightRole::kFusedGateUp:
      return {experts, 2 * int64_t{config.moe_intermediate}, hidden};
    case WeightRole::kFusedDown:
      return {experts, hidden, config.moe_intermediate};
  }
  return {};
}

std::vector<ExpectedTensor> weight_plan(const ModelConfig& config, ExpertLayout layout) {
  return Planner(config, layout).plan();
}

ExpertLayout expert_layout(const Checkpoint& checkpoint, const ModelConfig& config) {
  for (const LayerId layer : config.moe_shape().moe_layers)
    if (checkpoint.find(config.family->tensor_name(WeightRole::kFusedGateUp, layer.value, 0)))
      return ExpertLayout::kFused;
  return ExpertLayout::kPerExpert;
}

std::string WeightProblems::text() const {
  std::string text;
  append_names(text, "tensors missing", missing);
  append_names(text, "tensors unknown", unknown);
  append_names(text, "tensors wrong", wrong);
  return text;
}

WeightProblems compare_weights(const Checkpoint& checkpoint, const ModelConfig& config) {
  WeightProblems problems;
  std::unordered_set<std::string> expected;
  for (ExpectedTensor& wanted : weight_plan(config, expert_layout(checkpoint, config))) {
    const TensorView* found = checkpoint.find(wanted.name);
    if (!found)
      problems.missing.push_back(wanted.name);
    else if (found->shape != wanted.shape)
      problems.wrong.push_back(fmt::format("{} ({}, the config asks for {})", wanted.name,
                                           shape_text(found->shape), shape_text(wanted.shape)));
    else if (found->type == StoredType::kOther)
      problems.wrong.push_back(fmt::format("{} ({}: only F32, F16 and BF16 can be loaded)",
                                           wanted.name, found->type_name));
    expected.insert(std::move(wanted.name));
  }
  for (const TensorView* tensor : checkpoint.tensors())
    if (!expected.contains(tensor->name) && !config.family->is_skipped(config, tensor->name))
      problems.unknown.push_back(tensor->name);
  return problems;
}

Result<WeightSource> WeightSource::create(const Checkpoint& checkpoint, const ModelConfig& config) {
  const WeightProblems problems = compare_weights(checkpoint, config);
  if (!problems.empty())
    return invalid_input("the weights in {} do not match its config.json: {}", checkpoint.folder(),
                         problems.text());
  return WeightSource(checkpoint, config, expert_layout(checkpoint, config));
}

const TensorView& WeightSource::tensor(WeightRole role, int layer, int expert) const {
  const TensorView* found = checkpoint_->find(config_->family->tensor_name(role, layer, expert));
  CHECK(found != nullptr, "no tensor of role {} in layer {}", static_cast<int>(role), layer);
  return *found;
}

ExpertTensors WeightSource::expert(int layer, int expert) const {
  if (layout_ == ExpertLayout::kPerExpert)
    return {tensor(WeightRole::kExpertGate, layer, expert),
            tensor(WeightRole::kExpertUp, layer, expert),
            tensor(WeightRole::kExpertDown, layer, expert)};
  const int64_t hidden = config_->hidden_size, width = config_->moe_intermediate;
  const TensorView& gate_up = tensor(WeightRole::kFusedGateUp, layer);
  const TensorView& down = tensor(WeightRole::kFusedDown, layer);
  return {slice_rows(gate_up, 2 * expert * width, width, hidden),
          slice_rows(gate_up, (2 * expert + 1) * width, width, hidden),
          slice_rows(down, expert * hidden, hidden, width)};
}

}  // namespace fasteep
