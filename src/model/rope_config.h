#pragma once
// RoPE parameters of config.json in both spellings: rope_theta + rope_scaling, and rope_parameters.
#include "model/json_input.h"
#include "model/model_config.h"

namespace fasteep {

// max_positions: what yarn takes where original_max_position_embeddings is absent.
Result<RopeParams> parse_rope(const JsonReader& config, int max_positions);

}  // namespace fasteep
