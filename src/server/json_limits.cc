#include "server/json_limits.h"

#include <optional>
#include <unordered_map>
#include <vector>

namespace fasteep {
namespace {

constexpr size_t kMaxMessageBytes = 300;
constexpr size_t kIndexedKeys = 16;  // objects with more keys get a hash index: no quadratic search

// Builds the document from the parser's events and stops it at a limit.
class LimitedBuilder : public nlohmann::json_sax<OrderedJson> {
 public:
  explicit LimitedBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return add(value) != nullptr;
  }
  bool string(string_t& value) override { return add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return fail("binary values are not JSON"); }
  bool start_object(std::size_t) override { return open(OrderedJson::object()); }
  bool start_array(std::size_t) override { return open(OrderedJson::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    open_.back().key = std::move(value);
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return fail(plain_reason(error.what()));
  }

  Result<OrderedJson> finish() {
    if (error_) return Error(ErrorCode::kInvalidInput, "the body is not valid JSON: " + *error_);
    return std::move(root_);
  }

 private:
  struct Level {
    OrderedJson* value;
    std::string key;
    std::unordered_map<std::string, size_t> index;  // key -> place, once there are many
  };

  // "[json.exception.parse_error.101] parse error at ..." without the brackets, and not too long.
  static std::string plain_reason(std::string_view what) {
    const size_t end = what.find("] ");
    if (what.starts_with('[') && end != what.npos) what.remove_prefix(end + 2);
    std::string reason(what.substr(0, kMaxMessageBytes));
    if (what.size() > kMaxMessageBytes) reason += "...";
    return reason;
  }
  bool fail(std::string reason) {
    error_ = std::move(reason);
    return false;
  }
  // The place of the added value, or null past the limit.
  OrderedJson* add(OrderedJson value) {
    if (++num_values_ > limits_.max_values) {
      fail(fmt::format("more than {} values", limits_.max_values));
      return nullptr;
    }
    if (open_.empty()) return &(root_ = std::move(value));
    Level& level = open_.back();
    if (level.value->is_object()) return &(member(level) = std::move(value));
    level.value->push_back(std::move(value));
    return &level.value->back();
  }
  // The member of an object for its current key, new or old. ordered_json itself searches linearly.
  static OrderedJson& member(Level& level) {
    auto& members = level.value->get_ref<OrderedJson::object_t&>();
    if (members.size() < kIndexedKeys) return (*level.value)[level.key];
    if (level.index.empty())
      for (auto it = members.begin(); it != members.end(); ++it)
        level.index.emplace(it->first, it - members.begin());
    const auto [found, is_new] = level.index.emplace(level.key, members.size());
    if (is_new) members.emplace_back(level.key, nullptr);
    return (members.begin() + static_cast<ptrdiff_t>(found->second))->second;
  }
  bool open(OrderedJson container) {
    if (static_cast<int>(open_.size()) >= limits_.max_depth)
      return fail(fmt::format("nested more than {} levels deep", limits_.max_depth));
    OrderedJson* place = add(std::move(container));
    if (!place) return false;
    open_.push_back({place, {}, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  OrderedJson root_;
  std::vector<Level> open_;  // outermost first; a container does not move while one inside is open
  size_t num_values_ = 0;
  std::optional<std::string> error_;
};

}  // namespace

Result<OrderedJson> parse_json(std::string_view text, const JsonLimits& limits) {
  LimitedBuilder builder(limits);
  OrderedJson::sax_parse(text, &builder);
  return builder.finish();
}

std::string to_text(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string brief_text(const OrderedJson& json) {
  constexpr size_t kMaxBytes = 80;
  if (json.is_array()) return "a list";
  if (json.is_object()) return "an object";
  std::string text = to_text(json);
  if (text.size() > kMaxBytes) text = text.substr(0, kMaxBytes) + "...";
  return text;
}

}  // namespace fasteep
