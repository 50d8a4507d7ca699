#include "text/detokenizer_decoder.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "text/byte_alphabet.h"

namespace fasteep {
namespace {

constexpr int kMaxStrip = 1024;

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    out += text.substr(done, at - done);
    out += to;
    done = at + from.size();
  }
  out += text.substr(done);
  return out;
}

Result<int> count_field(const Json& description, const char* name) {
  const Json* value = find_field(description, name);
  if (value == nullptr || !value->is_number_unsigned() || value->get<uint64_t>() > kMaxStrip) {
    return invalid_input("Strip needs \"{}\" from 0 to {}", name, kMaxStrip);
  }
  return value->get<int>();
}

}  // namespace

int named_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = -1;
  const char* end = token.data() + 5;
  auto [stop, error] = std::from_chars(token.data() + 3, end, byte, 16);
  return error == std::errc() && stop == end && byte >= 0 ? byte : -1;
}

Result<DecoderPlan> DecoderPlan::from_json(const Json* description) {
  DecoderPlan plan;
  if (description == nullptr) {
    plan.is_absent_ = true;
    return plan;
  }
  Result<void> added = plan.add(*description);
  if (!added) return added.error().with("decoder");
  return plan;
}

Result<void> DecoderPlan::add(const Json& description) {
  FASTEEP_TRY(std::string type, required_string(description, "type"));
  if (type == "Sequence") {
    FASTEEP_TRY(const Json* parts, required_array(description, "decoders"));
    for (const Json& part : *parts) FASTEEP_TRY_VOID(add(part));
    return {};
  }
  if (type == "Strip") return add_strip(description);
  if (type == "Fuse") {
    stage_ = Stage::kWhole;
    return {};
  }
  bool is_known =
      type == "ByteLevel" || type == "Replace" || type == "ByteFallback" || type == "Metaspace";
  if (!is_known) {
    return invalid_input(
        "type \"{}\" is not supported (known: ByteLevel, Replace, ByteFallback, Fuse, Strip, "
        "Metaspace, Sequence)",
        type);
  }
  if (stage_ != Stage::kTokens) {
    return invalid_input("{} after ByteFallback, ByteLevel or Fuse is not supported", type);
  }
  if (type == "Replace") return add_replace(description);
  if (type == "Metaspace") return add_metaspace(description);
  if (type == "ByteLevel") {
    steps_.emplace_back(ByteLevel{});
    stage_ = Stage::kWhole;
  } else {
    byte_fallback_ = true;
    stage_ = Stage::kBytes;
  }
  return {};
}

Result<void> DecoderPlan::add_replace(const Json& description) {
  const Json* pattern = find_field(description, "pattern");
  if (pattern == nullptr || find_field(*pattern, "String") == nullptr) {
    return invalid_input("Replace is supported with a String pattern only");
  }
  FASTEEP_TRY(std::string from, required_string(*pattern, "String"));
  FASTEEP_TRY(std::string to, required_string(description, "content"));
  if (from.empty()) return invalid_input("Replace has an empty pattern");
  steps_.emplace_back(Replace{std::move(from), std::move(to)});
  return {};
}

Result<void> DecoderPlan::add_strip(const Json& description) {
  FASTEEP_TRY(std::string content, required_string(description, "content"));
  FASTEEP_TRY(int start, count_field(description, "start"));
  FASTEEP_TRY(int stop, count_field(description, "stop"));
  if (content.empty()) return invalid_input("Strip has an empty content");
  if (stage_ == Stage::kTokens) {
    steps_.emplace_back(Strip{std::move(content), start, stop});
    return {};
  }
  if (stage_ != Stage::kWhole || stop != 0 || !strip_text_.empty()) {
    return invalid_input("Strip is supported before ByteFallback, or once after Fuse with stop 0");
  }
  strip_text_ = std::move(content);
  strip_count_ = start;
  return {};
}

Result<void> DecoderPlan::add_metaspace(const Json& description) {
  FASTEEP_TRY(std::string replacement, string_field(description, "replacement", "▁"));
  FASTEEP_TRY(bool legacy_prefix, bool_field(description, "add_prefix_space", true));
  FASTEEP_TRY(std::string scheme,
              string_field(description, "prepend_scheme", legacy_prefix ? "always" : "never"));
  if (replacement.empty()) return invalid_input("Metaspace has an empty replacement");
  bool drops_first = scheme != "never";
  steps_.emplace_back(Metaspace{std::move(replacement), drops_first});
  treats_first_apart_ |= drops_first;
  return {};
}

std::string DecoderPlan::token_bytes(std::string token, bool is_first) const {
  for (const Step& step : steps_) {
    token = std::visit([&](const auto& s) { return run(s, std::move(token), is_first); }, step);
  }
  return token;
}

std::string DecoderPlan::run(const ByteLevel&, std::string token, bool) {
  return from_byte_alphabet(token);
}

std::string DecoderPlan::run(const Replace& step, std::string token, bool) {
  return replace_all(token, step.pattern, step.content);
}

std::string DecoderPlan::run(const Strip& step, std::string token, bool) {
  std::string_view text = token;
  for (int i = 0; i < step.start && text.starts_with(step.content); ++i) {
    text.remove_prefix(step.content.size());
  }
  for (int i = 0; i < step.stop && text.ends_with(step.content); ++i) {
    text.remove_suffix(step.content.size());
  }
  return std::string(text);
}

std::string DecoderPlan::run(const Metaspace& step, std::string token, bool is_first) {
  return replace_all(token, step.replacement, is_first && step.drops_first ? "" : " ");
}

}  // namespace fasteep
