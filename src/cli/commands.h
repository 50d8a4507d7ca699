#pragma once
// One function for each subcommand: adds it to `app` and returns what runs it.
#include "cli/flags.h"

namespace fasteep {

Command make_serve_command(CLI::App& app);     // serve MODEL
Command make_model_command(CLI::App& app);     // model inspect PATH, model synth OUT
Command make_bench_command(CLI::App& app);     // bench engine
Command make_settings_command(CLI::App& app);  // settings [--markdown]

// `fasteep rank --control-fd N`: a rank process; started by the controller, not by hand.
int run_rank_command(const char* flag, const char* control_fd);

}  // namespace fasteep
