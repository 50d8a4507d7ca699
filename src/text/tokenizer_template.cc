#include "text/tokenizer_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace fasteep {
namespace {

// The ids of one {"SpecialToken": {"id": name}} of a template.
Result<std::vector<TokenId>> ids_of(const Json& processor, const Json& special_token) {
  FASTEEP_TRY(std::string name, required_string(special_token, "id"));
  const Json* tokens = find_field(processor, "special_tokens");
  const Json* token = tokens == nullptr ? nullptr : find_field(*tokens, name.c_str());
  if (token == nullptr) {
    return invalid_input("the template uses \"{}\", which its special_tokens lack", name);
  }
  FASTEEP_TRY(const Json* values, required_array(*token, "ids"));
  std::vector<TokenId> ids;
  for (const Json& value : *values) {
    FASTEEP_TRY(TokenId id, token_id_of(value, name));
    ids.push_back(id);
  }
  return ids;
}

Result<SpecialTemplate> read_template(const Json& processor) {
  FASTEEP_TRY(const Json* items, required_array(processor, "single"));
  SpecialTemplate result;
  bool is_behind_text = false;
  for (const Json& item : *items) {
    if (find_field(item, "Sequence") != nullptr) {
      if (is_behind_text) return invalid_input("the template \"single\" holds the text twice");
      is_behind_text = true;
    } else if (const Json* special = find_field(item, "SpecialToken")) {
      FASTEEP_TRY(std::vector<TokenId> ids, ids_of(processor, *special));
      std::vector<TokenId>& side = is_behind_text ? result.suffix : result.prefix;
      side.insert(side.end(), ids.begin(), ids.end());
    } else {
      return invalid_input("the template \"single\" holds neither Sequence nor SpecialToken");
    }
  }
  if (!is_behind_text) return invalid_input("the template \"single\" leaves the text out");
  return result;
}

// Applies a processor around what `result` has so far.
Result<void> add_processor(const Json& processor, SpecialTemplate& result) {
  FASTEEP_TRY(std::string type, required_string(processor, "type"));
  if (type == "ByteLevel") return {};  // changes offsets only
  if (type == "Sequence") {
    FASTEEP_TRY(const Json* parts, required_array(processor, "processors"));
    for (const Json& part : *parts) FASTEEP_TRY_VOID(add_processor(part, result));
    return {};
  }
  if (type != "TemplateProcessing") {
    return invalid_input(
        "type \"{}\" is not supported (known: TemplateProcessing, ByteLevel, Sequence)", type);
  }
  FASTEEP_TRY(SpecialTemplate outer, read_template(processor));
  result.prefix.insert(result.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
  result.suffix.insert(result.suffix.end(), outer.suffix.begin(), outer.suffix.end());
  return {};
}

// The id that the config gives to "bos_token": a string, or an object with "content"; -1: none.
Result<TokenId> named_id(const Json& config, const char* name, const Vocabulary& vocabulary,
                         const std::vector<AddedToken>& added) {
  const Json* value = find_field(config, name);
  if (value == nullptr) return TokenId{-1};
  std::string content;
  if (value->is_object()) {
    FASTEEP_TRY(content, required_string(*value, "content"));
  } else {
    FASTEEP_TRY(content, required_string(config, name));
  }
  auto token = std::find_if(added.begin(), added.end(), [&](const AddedToken& candidate) {
    return candidate.content == content;
  });
  if (token != added.end()) return token->id;
  auto entry = vocabulary.find(content);
  return entry == vocabulary.end() ? TokenId{-1} : entry->second;
}

struct Override {
  const char* flag;   // "add_bos_token"
  const char* token;  // "bos_token"
  std::vector<TokenId>* side;
  bool at_front;  // where the side gets the token
};

Result<void> obey(const Override& rule, const Json& config, const Vocabulary& vocabulary,
                  const std::vector<AddedToken>& added) {
  if (find_field(config, rule.flag) == nullptr) return {};
  FASTEEP_TRY(bool wanted, bool_field(config, rule.flag, false));
  FASTEEP_TRY(TokenId id, named_id(config, rule.token, vocabulary, added));
  if (wanted && id < 0) {
    return invalid_input("tokenizer_config.json asks for {}, but its {} is no token", rule.flag,
                         rule.token);
  }
  bool is_there = std::find(rule.side->begin(), rule.side->end(), id) != rule.side->end();
  if (wanted && !is_there) {
    rule.side->insert(rule.at_front ? rule.side->begin() : rule.side->end(), id);
  }
  if (!wanted && is_there) std::erase(*rule.side, id);
  return {};
}

}  // namespace

Result<SpecialTemplate> read_special_template(const Json* post_processor, const Json* config,
                                              const Vocabulary& vocabulary,
                                              const std::vector<AddedToken>& added) {
  SpecialTemplate result;
  if (post_processor != nullptr) {
    Result<void> read = add_processor(*post_processor, result);
    if (!read) return read.error().with("post_processor");
  }
  if (config != nullptr) {
    Override bos{"add_bos_token", "bos_token", &result.prefix, true};
    Override eos{"add_eos_token", "eos_token", &result.suffix, false};
    FASTEEP_TRY_VOID(obey(bos, *config, vocabulary, added));
    FASTEEP_TRY_VOID(obey(eos, *config, vocabulary, added));
  }
  return result;
}

}  // namespace fasteep
