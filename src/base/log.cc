#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace fasteep {

void setup_logging(const std::string& role, const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>(
      role, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %^%L%$ [%n] %v");
  logger->set_level(spdlog::level::from_str(level == "warning" ? "warn" : level));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace fasteep
