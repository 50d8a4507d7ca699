#include "server/json_fields.h"

#include <cmath>

namespace fasteep {
namespace {

std::string text_of(const Bounds& bounds, double value) {
  constexpr double kNoUpperBound = 1e6;  // past it the bound is the type's, not the field's
  if (bounds.high >= kNoUpperBound && value < bounds.low)
    return fmt::format("at least {}", bounds.low);
  return fmt::format("in {}{}, {}]", bounds.low_excluded ? '(' : '[', bounds.low, bounds.high);
}

bool is_inside(double value, const Bounds& bounds) {
  return value <= bounds.high && (bounds.low_excluded ? value > bounds.low : value >= bounds.low);
}

// 5 and 5.0, but no float that has lost digits.
bool is_integral(const OrderedJson& value) {
  if (value.is_number_integer()) return true;
  if (!value.is_number_float()) return false;
  const double number = value.get<double>();
  return std::trunc(number) == number && std::abs(number) <= 0x1p53;
}

}  // namespace

const OrderedJson* JsonFields::find(std::string_view name) const {
  if (error_) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::fail(std::string_view name, std::string message) {
  if (error_) return;
  error_ = Error(ErrorCode::kInvalidInput, std::move(message)).on_field(std::string(name));
}

Result<void> JsonFields::result() const {
  if (error_) return *error_;
  return {};
}

void JsonFields::read(std::string_view name, bool& out) {
  const OrderedJson* value = find(name);
  if (!value) return;
  if (!value->is_boolean())
    return fail(name, fmt::format("{} must be true or false, got {}", name, brief_text(*value)));
  out = value->get<bool>();
}

void JsonFields::read(std::string_view name, std::string& out) {
  const OrderedJson* value = find(name);
  if (!value) return;
  if (!value->is_string())
    return fail(name, fmt::format("{} must be a string, got {}", name, brief_text(*value)));
  out = value->get<std::string>();
}

double JsonFields::number(std::string_view name, const OrderedJson& value, const Bounds& bounds) {
  const double number = value.get<double>();
  if (!is_inside(number, bounds))
    fail(name,
         fmt::format("{} must be {}, got {}", name, text_of(bounds, number), brief_text(value)));
  return number;
}

void JsonFields::read(std::string_view name, float& out, const Bounds& bounds) {
  const OrderedJson* value = find(name);
  if (!value) return;
  if (!value->is_number())
    return fail(name, fmt::format("{} must be a number, got {}", name, brief_text(*value)));
  const double read = number(name, *value, bounds);
  if (!error_) out = static_cast<float>(read);
}

void JsonFields::read(std::string_view name, int64_t& out, const Bounds& bounds) {
  const OrderedJson* value = find(name);
  if (!value) return;
  if (!is_integral(*value))
    return fail(name, fmt::format("{} must be an integer, got {}", name, brief_text(*value)));
  const double read = number(name, *value, bounds);
  if (error_) return;
  // Integers keep their 64 bits, also those above 2^63.
  out = value->is_number_integer() ? value->get<int64_t>() : static_cast<int64_t>(read);
}

void JsonFields::read(std::string_view name, int& out, const Bounds& bounds) {
  int64_t wide = out;
  read(name, wide, bounds);
  if (!error_) out = static_cast<int>(wide);
}

void JsonFields::read_object(std::string_view name, OrderedJson& out) {
  const OrderedJson* value = find(name);
  if (!value) return;
  if (!value->is_object())
    return fail(name, fmt::format("{} must be an object, got {}", name, brief_text(*value)));
  out = *value;
}

void JsonFields::read_list(std::string_view name, OrderedJson& out) {
  const OrderedJson* value = find(name);
  if (!value) return;
  if (!value->is_array())
    return fail(name, fmt::format("{} must be a list, got {}", name, brief_text(*value)));
  out = *value;
}

Result<TokenId> token_id(const OrderedJson& value, int vocab_size) {
  if (!value.is_number_integer()) return invalid_input("{} is not a token id", brief_text(value));
  const bool is_known = value.get<double>() >= 0 && value.get<double>() < vocab_size;
  if (!is_known)
    return invalid_input("token id {} is out of vocabulary: ids are 0 to {}", brief_text(value),
                         vocab_size - 1);
  return value.get<TokenId>();
}

void JsonFields::read_tokens(std::string_view name, int vocab_size, std::vector<TokenId>& out) {
  const OrderedJson* value = find(name);
  if (!value) return;
  if (!value->is_array())
    return fail(name,
                fmt::format("{} must be a list of token ids, got {}", name, brief_text(*value)));
  std::vector<TokenId> tokens;
  tokens.reserve(value->size());
  for (const OrderedJson& item : *value) {
    const Result<TokenId> id = token_id(item, vocab_size);
    if (!id) return fail(name, fmt::format("{}: {}", name, id.error().message()));
    tokens.push_back(*id);
  }
  out = std::move(tokens);
}

}  // namespace fasteep
