#pragma once
// JSON from strangers: bounded in depth and number of values, valid UTF-8, finite numbers.
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace fasteep {

using OrderedJson = nlohmann::ordered_json;  // chat templates see the order of keys

struct JsonLimits {
  int max_depth = 64;             // lists and objects inside each other
  size_t max_values = 4'000'000;  // of the whole text; 16 bytes each
};

// Of two equal keys the last wins. Any thread.
// Errors: kInvalidInput with the position, for whatever is not one JSON value within the limits.
Result<OrderedJson> parse_json(std::string_view text, const JsonLimits& limits = {});

// One line of JSON; bytes that are not UTF-8 become U+FFFD.
std::string to_text(const OrderedJson& json);

// The value as an error message shows it: at most about 80 bytes.
std::string brief_text(const OrderedJson& json);

}  // namespace fasteep
