#pragma once
// Reads fields of tokenizer files with errors that name the place. Any thread.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

namespace fasteep {

using Json = nlohmann::json;

// `where` names the text in errors ("tokenizer.json"). Refuses deep nesting: what follows may
// recurse.
Result<Json> parse_json_object(std::string_view text, std::string_view where);

// A field of an object; nullptr if it is absent or null, or if `object` is no object.
const Json* find_field(const Json& object, const char* name);

// An absent or null field gives the fallback. Errors: kInvalidInput, the field has another type.
Result<bool> bool_field(const Json& object, const char* name, bool fallback);
Result<std::string> string_field(const Json& object, const char* name, std::string_view fallback);

// Errors: kInvalidInput, the field is missing or has another type.
Result<std::string> required_string(const Json& object, const char* name);
Result<const Json*> required_array(const Json& object, const char* name);

// A token id: an integer from 0 to 2^31 - 1. `what` names it in errors.
Result<TokenId> token_id_of(const Json& value, std::string_view what);

}  // namespace fasteep
