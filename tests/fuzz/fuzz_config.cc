// Arbitrary bytes as config.json and generation_config.json: an error or a consistent config, never
// a crash.
#include "base/check.h"
#include "model/generation_config.h"
#include "model/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fasteep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ModelConfig small;
  small.vocab_size = 512;
  (void)parse_generation_config(text, "generation_config.json", small);
  const auto config = parse_config(text, "config.json");
  if (!config) return 0;
  CHECK(config->num_moe_layers() >= 1 && config->top_k <= config->num_experts, "inconsistent");
  CHECK(static_cast<int>(config->layers.size()) == config->num_layers, "inconsistent");
  return 0;
}
