#pragma once
// Result<T>: a value or an Error, with std::expected's member names.
//
// Codes are named by what the caller should do. A bug is not an Error: it is a failed CHECK.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace fasteep {

enum class ErrorCode {
  kInvalidInput,  // the caller gave something wrong: the message says what to change
  kNotFound,      // no such thing (model, request, file)
  kExhausted,     // a pool, queue or budget is full: try again later
  kPeerLost,      // a rank is gone: ask a replica, or give the request up
  kTimeout,       // a deadline passed
  kStaleEpoch,    // the answer belongs to another view: read the newest first
  kCancelled,     // the caller asked for it
  kUnavailable,   // not serving (starting, draining)
  kBusy,          // another operation is running: wait for it or abort it
  kIo,            // the operating system refused: the message holds its reason
};

std::string_view to_string(ErrorCode code);

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The field of the input that was wrong ("temperature", "--port"), or empty.
  const std::string& field() const { return field_; }
  Error& on_field(std::string field) {
    field_ = std::move(field);
    return *this;
  }

  // Prepends context: `return plan.error().with("shrink to {}", target);` -> "shrink to 4: ...".
  template <class... Args>
  Error with(fmt::format_string<Args...> format, Args&&... args) const {
    Error outer = *this;
    outer.message_ = fmt::format(format, std::forward<Args>(args)...) + ": " + message_;
    return outer;
  }

 private:
  ErrorCode code_;
  std::string message_;
  std::string field_;
};

template <class... Args>
Error make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(code, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
Error invalid_input(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorCode::kInvalidInput, fmt::format(format, std::forward<Args>(args)...));
}

// The operating system's reason for `what`, from `errno_value`.
Error io_error(std::string_view what, int errno_value);

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    CHECK(has_value(), "Result::value() of an error: {}", error_text());
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(has_value(), "Result::value() of an error: {}", error_text());
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(has_value(), "Result::value() of an error: {}", error_text());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    CHECK(!has_value(), "Result::error() of a value");
    return std::get<1>(state_);
  }

 private:
  std::string error_text() const {
    return has_value() ? std::string() : std::get<1>(state_).message();
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  void value() const { CHECK(has_value(), "Result::value() of an error: {}", error_->message()); }
  const Error& error() const {
    CHECK(!has_value(), "Result::error() of a value");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace fasteep

#define FASTEEP_CONCAT_INNER(a, b) a##b
#define FASTEEP_CONCAT(a, b) FASTEEP_CONCAT_INNER(a, b)

// FASTEEP_TRY(auto plan, planner.shrink(map)); leaves the function with the error if there is one.
#define FASTEEP_TRY(declaration, expression)             \
  auto FASTEEP_CONCAT(result_, __LINE__) = (expression); \
  if (!FASTEEP_CONCAT(result_, __LINE__).has_value())    \
    return FASTEEP_CONCAT(result_, __LINE__).error();    \
  declaration = std::move(*FASTEEP_CONCAT(result_, __LINE__))

// FASTEEP_TRY_VOID(pool.commit(slab)); the same for a Result<void>.
#define FASTEEP_TRY_VOID(expression)                        \
  do {                                                      \
    auto try_result = (expression);                         \
    if (!try_result.has_value()) return try_result.error(); \
  } while (false)
