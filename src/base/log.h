#pragma once
// Log lines on standard error: time, process role, level, text. Any thread.
#include <spdlog/spdlog.h>

#include <string>

namespace fasteep {

// role: "controller", "rank 3"; level: debug, info, warning, error.
void setup_logging(const std::string& role, const std::string& level);

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::info(format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::warn(format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::error(format, std::forward<Args>(args)...);
}

}  // namespace fasteep
