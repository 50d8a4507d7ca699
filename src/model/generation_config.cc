#include "model/generation_config.h"

#include <algorithm>
#include <set>

#include "model/json_input.h"

namespace fasteep {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

Result<void> parse_defaults(const JsonReader& reader, GenerationConfig& generation) {
  FASTEEP_TRY(generation.temperature, reader.optional_real("temperature", 0, 1e6));
  FASTEEP_TRY(generation.top_p, reader.optional_real("top_p", 0, 1));
  FASTEEP_TRY(generation.min_p, reader.optional_real("min_p", 0, 1));
  FASTEEP_TRY(const std::optional<int64_t> top_k,
              reader.optional_integer("top_k", -1, int64_t{1} << 30));
  if (top_k) generation.top_k = static_cast<int>(std::max<int64_t>(*top_k, 0));
  FASTEEP_TRY(const std::optional<int64_t> max_new,
              reader.optional_integer("max_new_tokens", 1, int64_t{1} << 30));
  if (max_new) generation.max_new_tokens = static_cast<int>(*max_new);
  return {};
}

// Keys that change results when they differ from the value that means "off".
Result<std::vector<std::string>> unsupported(const JsonReader& reader) {
  constexpr std::pair<const char*, double> kOff[] = {
      {"repetition_penalty", 1}, {"typical_p", 1}, {"no_repeat_ngram_size", 0}, {"num_beams", 1}};
  std::vector<std::string> warnings;
  for (const auto& [key, off] : kOff) {
    FASTEEP_TRY(const double value, reader.real(key, -1e9, 1e9, off));
    if (value != off)
      warnings.push_back(
          fmt::format("{}{} = {} is not supported and has no effect", reader.where(), key, value));
  }
  return warnings;
}

}  // namespace

Result<GenerationConfig> parse_generation_config(std::string_view text, const std::string& where,
                                                 const ModelConfig& config) {
  FASTEEP_TRY(const nlohmann::json object, parse_json(text, where));
  if (!object.is_object()) return invalid_input("{}: not a JSON object", where);
  const JsonReader reader(object, where + ": ");
  GenerationConfig generation;
  FASTEEP_TRY_VOID(parse_defaults(reader, generation));
  FASTEEP_TRY(const std::vector<int> own,
              reader.integers("eos_token_id", 0, config.vocab_size - 1));
  std::set<TokenId> all(own.begin(), own.end());
  all.insert(config.eos_ids.begin(), config.eos_ids.end());
  generation.eos_ids.assign(all.begin(), all.end());
  FASTEEP_TRY(generation.warnings, unsupported(reader));
  return generation;
}

Result<GenerationConfig> load_generation_config(const std::string& folder,
                                                const ModelConfig& config) {
  const std::string path = folder + "/generation_config.json";
  Result<std::string> text = read_text_file(path, kMaxBytes);
  if (!text && text.error().code() == ErrorCode::kNotFound)
    return parse_generation_config("{}", "config.json", config);
  if (!text) return text.error();
  return parse_generation_config(*text, path, config);
}

}  // namespace fasteep
