#pragma once
// Makes a valid checkpoint of any size with made-up weights: same config and seed, same bytes.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/replicated_weights.h"

namespace fasteep {

struct SynthOptions {
  std::string folder;  // created; an existing one must be empty
  uint64_t seed = 0;
  int threads = 1;
  uint64_t shard_bytes = uint64_t{2} << 30;  // more than that: several files and an index
};

// Names for --preset, and the config.json of one. Error kInvalidInput lists the names.
std::vector<std::string_view> synth_presets();
Result<std::string> synth_preset(std::string_view name);

// Writes config.json, generation_config.json, the tokenizer and bfloat16 weights. config.json comes
// last: a folder that has one is complete. Errors: kInvalidInput for the config or the folder, kIo.
Result<void> synthesize(std::string_view config_json, const SynthOptions& options,
                        const LoadProgress& progress = {});

}  // namespace fasteep
