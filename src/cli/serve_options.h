#pragma once
// Settings of `fasteep serve` that belong to the program, not to a room.
#include <cstdint>
#include <optional>
#include <string>

#include "base/settings_table.h"
#include "engine/engine_options.h"
#include "server/server_options.h"

namespace fasteep {

struct ProgramOptions {
  std::string log_level = "info";
  std::optional<int64_t> seed;
  template <class V>
  void visit(V& v) {
    v(log_level, "log-level", "least important log line shown",
      Choices{{"debug", "info", "warning", "error"}});
    v(seed, "seed",
      "seeds of requests that give none follow from this one, in order of arrival (default: "
      "chance)");
  }
};

// All settings of `fasteep serve`, in the order of --help.
struct ServeOptions {
  EngineOptions engine;
  ServerOptions server;
  ProgramOptions program;
  SettingsTable table;

  ServeOptions() {
    table.add(server);
    table.add(engine);
    table.add(program);
  }
  ServeOptions(const ServeOptions&) = delete;  // the table points into the structs
};

}  // namespace fasteep
