#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "cli/commands.h"
#include "model/inspect.h"
#include "model/synth.h"

namespace fasteep {
namespace {

struct SynthArguments {
  std::string preset, config_path, folder;
  uint64_t seed = 0;
};

Result<int> inspect(const std::string& folder) {
  FASTEEP_TRY(const Inspection inspection, inspect_model(folder));
  fmt::print("{}", inspection.report);
  return inspection.problems.empty() ? 0 : 1;
}

Result<std::string> synth_config(const SynthArguments& arguments) {
  if (arguments.preset.empty() == arguments.config_path.empty()) {
    return invalid_input("give either --preset ({}) or --config config.json",
                         fmt::join(synth_presets(), ", "));
  }
  if (!arguments.preset.empty()) return synth_preset(arguments.preset);
  std::ifstream file(arguments.config_path);
  if (!file)
    return invalid_input("--config {}: no such file, or not readable", arguments.config_path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A line that is rewritten while bytes are written, on a terminal only.
void show_progress(uint64_t done, uint64_t total) {
  if (isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "\rwriting {} of {}   ", format_bytes(done), format_bytes(total));
  if (done == total) fmt::print(stderr, "\n");
}

Result<int> synth(const SynthArguments& arguments) {
  const TimePoint begin = system_clock().now();
  FASTEEP_TRY(const std::string config, synth_config(arguments));
  SynthOptions options;
  options.folder = arguments.folder;
  options.seed = arguments.seed;
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  FASTEEP_TRY_VOID(synthesize(config, options, show_progress));
  fmt::print("{}: written in {:.1f} s\n", arguments.folder, seconds(system_clock().now() - begin));
  return 0;
}

}  // namespace

Command make_model_command(CLI::App& app) {
  CLI::App* model =
      app.add_subcommand("model", "Look at a model folder, or make one with random weights");
  auto folder = std::make_shared<std::string>();
  CLI::App* inspect_app =
      model->add_subcommand("inspect", "What a model folder holds, and what it needs");
  inspect_app->add_option("PATH", *folder, "a Hugging Face folder")->required();

  auto arguments = std::make_shared<SynthArguments>();
  CLI::App* synth_app =
      model->add_subcommand("synth", "Write a valid checkpoint with random weights");
  synth_app->add_option("--preset", arguments->preset,
                        fmt::format("one of {}", fmt::join(synth_presets(), ", ")));
  synth_app->add_option("--config", arguments->config_path, "config.json of the model to make");
  synth_app->add_option("--seed", arguments->seed, "same seed, same bytes")->capture_default_str();
  synth_app->add_option("OUT", arguments->folder, "folder to make")->required();
  model->require_subcommand(1);
  return {model, [=]() -> Result<int> {
            return inspect_app->parsed() ? inspect(*folder) : synth(*arguments);
          }};
}

}  // namespace fasteep
