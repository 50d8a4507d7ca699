#include "model/rope_config.h"

namespace fasteep {
namespace {

constexpr double kMaxReal = 1e18;

Result<RopeType> parse_type(const JsonReader& reader) {
  FASTEEP_TRY(const std::string old_name, reader.text("type", "default"));
  FASTEEP_TRY(const std::string name, reader.text("rope_type", old_name));
  if (name == "default" || name == "mrope") return RopeType::kDefault;  // mrope: the same for text
  if (name == "linear") return RopeType::kLinear;
  if (name == "yarn") return RopeType::kYarn;
  return reader.wrong(reader.has("rope_type") ? "rope_type" : "type",
                      "one of default, linear, yarn (no other RoPE scaling is supported)");
}

Result<void> parse_yarn(const JsonReader& reader, int max_positions, RopeParams& rope) {
  FASTEEP_TRY(rope.original_max_positions,
              reader.real("original_max_position_embeddings", 1, kMaxReal, max_positions));
  FASTEEP_TRY(const std::optional<double> beta_fast, reader.optional_real("beta_fast", 1e-6, 1e9));
  FASTEEP_TRY(const std::optional<double> beta_slow, reader.optional_real("beta_slow", 1e-6, 1e9));
  rope.beta_fast = beta_fast.value_or(32);
  rope.beta_slow = beta_slow.value_or(1);
  FASTEEP_TRY(rope.truncate, reader.boolean("truncate", true));
  FASTEEP_TRY(rope.attention_factor, reader.optional_real("attention_factor", 1e-6, 1e6));
  FASTEEP_TRY(rope.mscale, reader.optional_real("mscale", 0, 1e6));
  FASTEEP_TRY(rope.mscale_all_dim, reader.optional_real("mscale_all_dim", 0, 1e6));
  return {};
}

Result<void> parse_scaling(const JsonReader& reader, int max_positions, RopeParams& rope) {
  FASTEEP_TRY(rope.type, parse_type(reader));
  FASTEEP_TRY(const double rotary, reader.real("partial_rotary_factor", 0, 1, 1.0));
  if (rotary != 1.0)
    return reader.wrong("partial_rotary_factor", "1 (partial rotation is not supported)");
  if (rope.type == RopeType::kDefault) return {};
  FASTEEP_TRY(rope.factor, reader.real("factor", 1e-3, 1e6));
  if (rope.type == RopeType::kYarn) return parse_yarn(reader, max_positions, rope);
  return {};
}

}  // namespace

std::string_view to_string(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
      return "default";
    case RopeType::kLinear:
      return "linear";
    case RopeType::kYarn:
      return "yarn";
  }
  return "?";
}

Result<RopeParams> parse_rope(const JsonReader& config, int max_positions) {
  RopeParams rope;
  FASTEEP_TRY(rope.theta, config.real("rope_theta", 1.0001, kMaxReal, 10000.0));
  FASTEEP_TRY(const double rotary, config.real("partial_rotary_factor", 0, 1, 1.0));
  if (rotary != 1.0)
    return config.wrong("partial_rotary_factor", "1 (partial rotation is not supported)");
  const bool newer = config.has("rope_parameters");
  if (!newer && !config.has("rope_scaling")) return rope;
  FASTEEP_TRY(const JsonReader scaling, config.object(newer ? "rope_parameters" : "rope_scaling"));
  FASTEEP_TRY(rope.theta, scaling.real("rope_theta", 1.0001, kMaxReal, rope.theta));
  FASTEEP_TRY_VOID(parse_scaling(scaling, max_positions, rope));
  return rope;
}

}  // namespace fasteep
