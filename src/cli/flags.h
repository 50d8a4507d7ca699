#pragma once
// Ties the settings list to CLI11: one option per setting, then --config below the flags.
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/settings_table.h"

namespace fasteep {

// A subcommand: `run` is called when the user named it; its int is the exit status.
struct Command {
  CLI::App* app = nullptr;
  std::function<Result<int>()> run;
};

// Threads: one. Flags override the file whatever the order on the command line.
class Flags {
 public:
  // Adds an option to `app` for every setting of `table`, and --config if `with_config`. The table
  // is shared: the options of `app` point into it for as long as there are flags.
  Flags(CLI::App& app, std::shared_ptr<const SettingsTable> table, bool with_config);
  Flags(const Flags&) = delete;

  // After parsing: unknown flags are errors, then the file, then the flags are read into the
  // settings.
  Result<void> apply() const;

 private:
  void add(CLI::App& app, const Setting& setting);

  CLI::App& app_;
  std::shared_ptr<const SettingsTable> table_;
  std::string config_path_;
  std::vector<std::pair<const Setting*, std::string>> given_;  // in the order of the command line
};

// Error for words that CLI11 did not know, or nothing.
Result<void> refuse_extras(const CLI::App& app, const SettingsTable& table);

}  // namespace fasteep
