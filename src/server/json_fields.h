#pragma once
// Reads the fields of a JSON object into typed variables and keeps the first complaint.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "server/json_limits.h"

namespace fasteep {

struct Bounds {
  double low;
  double high;
  bool low_excluded = false;
};

// read(): an absent or null field leaves `out` as it was. After the first error nothing is read.
// Errors: kInvalidInput, on_field(the field), with the value and what it should be.
class JsonFields {
 public:
  explicit JsonFields(const OrderedJson& object) : object_(object) {}

  void read(std::string_view name, bool& out);
  void read(std::string_view name, std::string& out);
  void read(std::string_view name, float& out, const Bounds& bounds);
  void read(std::string_view name, int& out, const Bounds& bounds);
  void read(std::string_view name, int64_t& out, const Bounds& bounds);
  void read_object(std::string_view name, OrderedJson& out);
  void read_list(std::string_view name, OrderedJson& out);
  // A list of token ids, each in [0, vocab_size).
  void read_tokens(std::string_view name, int vocab_size, std::vector<TokenId>& out);
  template <class T, class... Rest>
  void read(std::string_view name, std::optional<T>& out, const Rest&... rest) {
    T value{};
    if (!find(name)) return;
    read(name, value, rest...);
    if (!error_) out = value;
  }

  // Null if absent, null, or an error was found before.
  const OrderedJson* find(std::string_view name) const;
  void fail(std::string_view name, std::string message);
  bool failed() const { return error_.has_value(); }
  Result<void> result() const;

 private:
  double number(std::string_view name, const OrderedJson& value, const Bounds& bounds);

  const OrderedJson& object_;
  std::optional<Error> error_;
};

// A token id of a request, or an error that says what is wrong with it.
Result<TokenId> token_id(const OrderedJson& value, int vocab_size);

}  // namespace fasteep
