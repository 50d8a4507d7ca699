#include "model/inspect.h"

#include <filesystem>
#include <map>

#include "base/settings_table.h"
#include "model/generation_config.h"
#include "model/memory_plan.h"
#include "placement/placement.h"

namespace fasteep {
namespace {

std::string count_text(int64_t count) {
  if (count >= 1'000'000'000) return fmt::format("{:.2f} B", static_cast<double>(count) * 1e-9);
  if (count >= 1'000'000) return fmt::format("{:.2f} M", static_cast<double>(count) * 1e-6);
  return fmt::format("{}", count);
}

class Report {
 public:
  template <class... Args>
  void line(std::string_view name, fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format("{:<16}", name) + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string rope_text(const RopeParams& rope) {
  std::string text = fmt::format("{}, theta {}", to_string(rope.type), rope.theta);
  if (rope.type != RopeType::kDefault) text += fmt::format(", factor {}", rope.factor);
  if (rope.type == RopeType::kYarn)
    text += fmt::format(", original context {}", rope.original_max_positions);
  return text;
}

void describe_architecture(const ModelConfig& config, Report& report) {
  const int moe = config.num_moe_layers();
  report.line("family", "{} ({})", config.family->model_type, config.family->architecture);
  report.line("layers", "{}: {} mixture of experts, {} dense", config.num_layers, moe,
              config.num_layers - moe);
  report.line("hidden", "{}; {} heads and {} KV heads of {}{}", config.hidden_size,
              config.num_heads, config.num_kv_heads, config.head_dim,
              config.attention_bias ? ", attention bias" : "");
  report.line("experts", "{} per layer, top {}, width {}, {}", config.num_experts, config.top_k,
              config.moe_intermediate,
              config.normalise_topk ? "weights normalised" : "weights not normalised");
  report.line("vocabulary", "{}{}", config.vocab_size,
              config.tied_embeddings ? ", head tied to the embeddings" : "");
  report.line("context", "{} tokens", config.max_model_len);
  report.line("rope", "{}", rope_text(config.rope));
  const ParameterCount parameters = count_parameters(config);
  report.line("parameters", "{} in all, {} active per token", count_text(parameters.total),
              count_text(parameters.active));
  report.line("dtype", "{} (what --dtype auto takes)", to_string(config.native_dtype));
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32})
    report.line("KV per token", "{} in {}", format_bytes(kv_block_bytes(config, dtype, 1)),
                to_string(dtype));
}

void describe_checkpoint(const ModelConfig& config, const std::string& folder, Report& report,
                         std::vector<std::string>& problems) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint) return problems.push_back(checkpoint.error().message());
  std::map<std::string, size_t> bytes_of;
  for (const TensorView* tensor : checkpoint->tensors())
    bytes_of[tensor->type_name] += tensor->bytes.size();
  report.line("weights", "{} tensors in {} files", checkpoint->tensors().size(),
              checkpoint->num_files());
  for (const auto& [type, bytes] : bytes_of)
    report.line("stored", "{} as {}", format_bytes(bytes), type);
  report.line("expert tensors", "{}", to_string(expert_layout(*checkpoint, config)));
  const WeightProblems found = compare_weights(*checkpoint, config);
  if (!found.empty()) problems.push_back(found.text());
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// "chat_template.jinja", "tokenizer_config.json" or nothing.
std::string template_file(const std::string& folder) {
  if (exists(folder + "/chat_template.jinja")) return "chat_template.jinja";
  const Result<std::string> text = read_text_file(folder + "/tokenizer_config.json", 64 << 20);
  if (!text) return {};
  const Result<nlohmann::json> json = parse_json(*text, "tokenizer_config.json");
  const bool found = json && json->is_object() && json->contains("chat_template");
  return found ? "tokenizer_config.json" : "";
}

void describe_text(const ModelConfig& config, const std::string& folder, Report& report,
                   std::vector<std::string>& problems) {
  const bool tokenizer = exists(folder + "/tokenizer.json");
  report.line("tokenizer", "{}", tokenizer ? "tokenizer.json" : "none");
  if (!tokenizer) problems.push_back("there is no tokenizer.json");
  const std::string chat = template_file(folder);
  report.line("chat template", "{}", chat.empty() ? "none: /v1/completions only" : chat);
  const Result<GenerationConfig> generation = load_generation_config(folder, config);
  if (!generation) return problems.push_back(generation.error().message());
  report.line("stop ids", "{}", fmt::join(generation->eos_ids, ", "));
  for (const std::string& warning : generation->warnings) report.line("warning", "{}", warning);
}

// What every rank must hold before it has room for a single token.
void describe_needs(const ModelConfig& config, Report& report) {
  for (const int ranks : {1, 2, 4, 8}) {
    MemoryRequest request;
    request.dtype = config.native_dtype;
    request.num_slots = config.num_moe_layers() * slots_per_layer(config.num_experts, 0, ranks);
    const MemoryPlan plan = plan_memory(config, request, 0);
    report.line(fmt::format("EP {}", ranks),
                "per rank {} = replicated {} + {} experts {} + work {}", format_bytes(plan.total()),
                format_bytes(plan.replicated), request.num_slots, format_bytes(plan.experts),
                format_bytes(plan.workspace));
  }
}

}  // namespace

ParameterCount count_parameters(const ModelConfig& config) {
  ParameterCount count;
  for (const ExpectedTensor& tensor : weight_plan(config, ExpertLayout::kFused)) {
    int64_t size = 1;
    for (const int64_t extent : tensor.shape) size *= extent;
    count.total += size;
    count.active += is_expert_role(tensor.role) ? size / config.num_experts * config.top_k : size;
  }
  return count;
}

Result<Inspection> inspect_model(const std::string& folder) {
  FASTEEP_TRY(const ModelConfig config, load_config(folder));
  Inspection inspection;
  Report report;
  report.line("model", "{}", folder);
  describe_architecture(config, report);
  describe_checkpoint(config, folder, report, inspection.problems);
  describe_text(config, folder, report, inspection.problems);
  describe_needs(config, report);
  for (const std::string& problem : inspection.problems) report.line("problem", "{}", problem);
  if (inspection.problems.empty()) report.line("problems", "none");
  inspection.report = report.take();
  return inspection;
}

}  // namespace fasteep
