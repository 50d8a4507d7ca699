#pragma once
// CHECK(condition, "text with the {}", values): a failed one is a bug in FastEEP. It stops the
// process.
#include <fmt/format.h>

#include <string>

namespace fasteep {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& text);
}  // namespace fasteep

#define CHECK(condition, ...)                                                               \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::fasteep::check_failed(__FILE__, __LINE__, #condition, fmt::format("" __VA_ARGS__)); \
  } while (false)

// DCHECK: the same in checked builds (debug, tsan, relassert); not compiled in `release`.
#ifdef FASTEEP_DCHECKS
#define DCHECK(condition, ...) CHECK(condition, __VA_ARGS__)
#else
#define DCHECK(condition, ...) \
  do {                         \
  } while (false && (condition))
#endif
