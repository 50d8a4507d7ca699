#pragma once
// generation_config.json: stop ids and defaults for requests that leave sampling parameters out.
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/model_config.h"

namespace fasteep {

// As in vLLM, `do_sample` is not read: a request without a temperature gets the file's, else 1.
struct GenerationConfig {
  std::vector<TokenId> eos_ids;  // of both files, increasing
  std::optional<double> temperature, top_p, min_p;
  std::optional<int> top_k;  // 0: off
  std::optional<int> max_new_tokens;
  std::vector<std::string> warnings;  // what the file asks for and the engine does not do
};

Result<GenerationConfig> parse_generation_config(std::string_view text, const std::string& where,
                                                 const ModelConfig& config);
// folder/generation_config.json; a folder without one gives config.json's stop ids only.
Result<GenerationConfig> load_generation_config(const std::string& folder,
                                                const ModelConfig& config);

}  // namespace fasteep
