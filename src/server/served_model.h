#pragma once
// The model as the API shows it.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/rng.h"
#include "server/text_model.h"

namespace fasteep {

// The checkpoint's generation_config.json: defaults for what a request leaves out.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int> top_k;
  std::optional<float> min_p;
  std::optional<int> max_new_tokens;
  // The seed of a request that gives none. Any thread.
  std::function<uint64_t()> draw_seed = fresh_seed;
};

struct ServedModel {
  std::vector<std::string> names;  // at least one; answers carry the first
  int max_model_len = 0;           // tokens of prompt and answer
  int vocab_size = 0;              // prompts may hold ids below it
  const TextModel& text;
  GenerationDefaults defaults;
  std::vector<TokenId> eos_ids;  // the model's own stop tokens

  // Errors: kNotFound for a name that is not served. Empty: the first.
  Result<std::string> find_name(const std::string& name) const;
};

}  // namespace fasteep
