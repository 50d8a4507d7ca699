#include "cli/cli.h"

#include <cstdio>
#include <cstring>

#include "cli/commands.h"

namespace fasteep {
namespace {

constexpr int kWrongUsage = 2;

int print_error(const Error& error) {
  fmt::print(stderr, "fasteep: {}\n", error.message());
  return error.code() == ErrorCode::kInvalidInput ? kWrongUsage : 1;
}

// CLI11 says only that a subcommand is missing; the user wants to hear which one was meant.
Error wrong_word(const std::string& word, const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.app->get_name());
  const std::string nearest = nearest_word(word, names);
  const std::string hint =
      nearest.empty() ? "see `fasteep --help`" : "did you mean \"" + nearest + "\"?";
  return invalid_input("unknown command \"{}\": {}", word, hint);
}

Result<int> run(CLI::App& app, const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  if (!app.remaining().empty()) return wrong_word(app.remaining().front(), commands);
  fmt::print("{}", app.help());
  return kWrongUsage;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  // Ranks start by the dozen: they skip the parser of everything else.
  if (argc == 4 && std::strcmp(argv[1], "rank") == 0) return run_rank_command(argv[2], argv[3]);
  CLI::App app("FastEEP serves Mixture-of-Experts models on expert-parallel ranks.", "fasteep");
  app.set_version_flag("--version", std::string("fasteep ") + FASTEEP_VERSION);
  app.allow_extras();
  const std::vector<Command> commands = {make_serve_command(app), make_model_command(app),
                                         make_bench_command(app), make_settings_command(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return print_error(invalid_input("{}", error.what()));
  }
  const Result<int> status = run(app, commands);
  return status ? *status : print_error(status.error());
}

}  // namespace fasteep
