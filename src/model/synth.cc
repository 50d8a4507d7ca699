#include "model/synth.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/thread_pool.h"
#include "model/safetensors_writer.h"
#include "model/synth_weights.h"
#include "text/synthetic_tokenizer.h"

namespace fasteep {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kChunkValues = 4 << 20;    // written at a time
constexpr size_t kThreadValues = 64 << 10;  // made at a time by one thread

struct Preset {
  std::string_view name;
  int vocab, hidden, layers, heads, kv_heads, head_dim, experts, top_k, intermediate, positions;
};
constexpr Preset kPresets[] = {
    {"tiny", 512, 64, 3, 4, 2, 32, 16, 4, 32, 2048},
    {"bench-s", 32000, 1024, 16, 16, 4, 64, 64, 8, 512, 32768},
};

std::string preset_json(const Preset& preset) {
  const Json config = {{"model_type", "qwen3_moe"},
                       {"architectures", {"Qwen3MoeForCausalLM"}},
                       {"vocab_size", preset.vocab},
                       {"hidden_size", preset.hidden},
                       {"num_hidden_layers", preset.layers},
                       {"num_attention_heads", preset.heads},
                       {"num_key_value_heads", preset.kv_heads},
                       {"head_dim", preset.head_dim},
                       {"intermediate_size", 3 * preset.hidden},
                       {"moe_intermediate_size", preset.intermediate},
                       {"num_experts", preset.experts},
                       {"num_experts_per_tok", preset.top_k},
                       {"norm_topk_prob", true},
                       {"decoder_sparse_step", 1},
                       {"mlp_only_layers", Json::array()},
                       {"attention_bias", false},
                       {"hidden_act", "silu"},
                       {"rms_norm_eps", 1e-6},
                       {"rope_theta", 1e6},
                       {"rope_scaling", nullptr},
                       {"max_position_embeddings", preset.positions},
                       {"use_sliding_window", false},
                       {"tie_word_embeddings", false},
                       {"torch_dtype", "bfloat16"},
                       {"eos_token_id", preset.vocab - 1},
                       {"pad_token_id", preset.vocab - 3}};
  return config.dump(2) + "\n";
}

Result<void> write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return make_error(ErrorCode::kIo, "{} cannot be written", path);
  return {};
}

Result<void> make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return make_error(ErrorCode::kIo, "create {}: {}", folder, error.message());
  const bool empty = std::filesystem::is_empty(folder, error);
  if (error) return make_error(ErrorCode::kIo, "{}: {}", folder, error.message());
  if (!empty) return invalid_input("{} is not empty: choose a new folder", folder);
  return {};
}

uint64_t num_values(const ExpectedTensor& tensor) {
  uint64_t count = 1;
  for (const int64_t size : tensor.shape) count *= static_cast<uint64_t>(size);
  return count;
}

struct Shard {
  std::string name;
  size_t first = 0, count = 0;  // tensors of the plan
};

std::vector<Shard> split_shards(const std::vector<ExpectedTensor>& plan, uint64_t shard_bytes) {
  std::vector<Shard> shards;
  uint64_t used = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    const uint64_t size = 2 * num_values(plan[i]);
    if (shards.empty() || used + size > shard_bytes) {
      shards.push_back({"", i, 0});
      used = 0;
    }
    ++shards.back().count;
    used += size;
  }
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].name = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  return shards;
}

// Makes and writes the weights of a plan.
class WeightMaker {
 public:
  WeightMaker(const std::vector<ExpectedTensor>& plan, const SynthOptions& options,
              const LoadProgress& progress)
      : plan_(plan), options_(options), progress_(progress), pool_(options.threads) {
    for (const ExpectedTensor& tensor : plan) total_ += 2 * num_values(tensor);
    buffer_.resize(kChunkValues);
  }

  Result<void> write(const Shard& shard) {
    std::vector<StoredTensor> stored;
    for (size_t i = shard.first; i < shard.first + shard.count; ++i)
      stored.push_back({plan_[i].name, "BF16", plan_[i].shape, 2 * num_values(plan_[i])});
    FASTEEP_TRY(SafetensorsWriter writer,
                SafetensorsWriter::create(options_.folder + "/" + shard.name, stored));
    for (size_t i = shard.first; i < shard.first + shard.count; ++i)
      FASTEEP_TRY_VOID(write_tensor(i, writer));
    return writer.finish();
  }

 private:
  Result<void> write_tensor(size_t index, SafetensorsWriter& writer) {
    const uint64_t count = num_values(plan_[index]);
    const WeightScale scale = synth_scale(plan_[index]);
    for (uint64_t first = 0; first < count; first += kChunkValues) {
      const std::span<BFloat16> chunk =
          std::span(buffer_).first(std::min<uint64_t>(kChunkValues, count - first));
      pool_.parallel_for(static_cast<int64_t>(chunk.size()), kThreadValues,
                         [&](int64_t begin, int64_t end, int) {
                           synth_values(options_.seed, index, first + begin, scale,
                                        chunk.subspan(begin, end - begin));
                         });
      FASTEEP_TRY_VOID(writer.append(std::as_bytes(chunk)));
      done_ += chunk.size_bytes();
      if (progress_) progress_(done_, total_);
    }
    return {};
  }

  const std::vector<ExpectedTensor>& plan_;
  const SynthOptions& options_;
  const LoadProgress& progress_;
  ThreadPool pool_;
  std::vector<BFloat16> buffer_;
  size_t done_ = 0, total_ = 0;
};

std::string index_json(const std::vector<ExpectedTensor>& plan, const std::vector<Shard>& shards) {
  Json index;
  uint64_t total = 0;
  for (const ExpectedTensor& tensor : plan) total += 2 * num_values(tensor);
  index["metadata"]["total_size"] = total;
  for (const Shard& shard : shards)
    for (size_t i = shard.first; i < shard.first + shard.count; ++i)
      index["weight_map"][plan[i].name] = shard.name;
  return index.dump(1) + "\n";
}

Result<void> write_tokenizer(const ModelConfig& config, const std::string& folder) {
  FASTEEP_TRY(const std::string tokenizer, make_byte_tokenizer_json(config.vocab_size));
  FASTEEP_TRY(const std::string settings, make_byte_tokenizer_config_json(config.vocab_size));
  FASTEEP_TRY_VOID(write_text(folder + "/tokenizer.json", tokenizer));
  FASTEEP_TRY_VOID(write_text(folder + "/tokenizer_config.json", settings));
  const Json generation = {{"eos_token_id", {config.vocab_size - 1, config.vocab_size - 3}},
                           {"pad_token_id", config.vocab_size - 3}};
  return write_text(folder + "/generation_config.json", generation.dump(2) + "\n");
}

Result<void> write_weights(const ModelConfig& config, const SynthOptions& options,
                           const LoadProgress& progress) {
  const std::vector<ExpectedTensor> plan = weight_plan(config, ExpertLayout::kPerExpert);
  const std::vector<Shard> shards = split_shards(plan, options.shard_bytes);
  WeightMaker maker(plan, options, progress);
  for (const Shard& shard : shards) FASTEEP_TRY_VOID(maker.write(shard));
  if (shards.size() == 1) return {};
  return write_text(options.folder + "/model.safetensors.index.json", index_json(plan, shards));
}

}  // namespace

std::vector<std::string_view> synth_presets() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

Result<std::string> synth_preset(std::string_view name) {
  for (const Preset& preset : kPresets)
    if (preset.name == name) return preset_json(preset);
  return invalid_input("no preset \"{}\": choose one of {}", name,
                       fmt::join(synth_presets(), ", "));
}

Result<void> synthesize(std::string_view config_json, const SynthOptions& options,
                        const LoadProgress& progress) {
  FASTEEP_TRY(const ModelConfig config, parse_config(config_json, "config.json"));
  FASTEEP_TRY_VOID(make_folder(options.folder));
  FASTEEP_TRY_VOID(write_tokenizer(config, options.folder));
  FASTEEP_TRY_VOID(write_weights(config, options, progress));
  return write_text(options.folder + "/config.json", std::string(config_json));
}

}  // namespace fasteep
