#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <filesystem>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/serve_options.h"
#include "cli/start_display.h"
#include "engine/controller.h"
#include "server/server.h"
#include "server/tokenizer_text.h"

namespace fasteep {
namespace {

Result<TokenizerText> load_text(EngineOptions& engine) {
  FASTEEP_TRY(Tokenizer tokenizer, Tokenizer::load(engine.model));
  FASTEEP_TRY(std::optional<ChatTemplate> chat_template, load_chat_template(engine.model));
  engine.usable_vocab = tokenizer.vocab_size();
  return TokenizerText(std::move(tokenizer), std::move(chat_template));
}

// The n-th request without a seed gets the first draw of stream n.
std::function<uint64_t()> seeds_from(uint64_t seed) {
  auto next = std::make_shared<std::atomic<uint64_t>>(0);  // shared by copies of the function
  return [seed, next] { return Rng(seed, (*next)++).next_u64(); };
}

GenerationDefaults defaults_of(const GenerationConfig& config, std::optional<int64_t> seed) {
  GenerationDefaults defaults;
  if (seed) defaults.draw_seed = seeds_from(static_cast<uint64_t>(*seed));
  if (config.temperature) defaults.temperature = static_cast<float>(*config.temperature);
  if (config.top_p) defaults.top_p = static_cast<float>(*config.top_p);
  if (config.min_p) defaults.min_p = static_cast<float>(*config.min_p);
  defaults.top_k = config.top_k;
  defaults.max_new_tokens = config.max_new_tokens;
  return defaults;
}

std::vector<std::string> model_names(const ServeOptions& options) {
  std::vector<std::string> names = split_list(options.server.served_model_name);
  if (!names.empty()) return names;
  const auto path = std::filesystem::weakly_canonical(options.engine.model);
  return {path.filename().string()};
}

// One serving process: wires the controller to the HTTP server and both to signals. Threads: one.
class ServeApp {
 public:
  ServeApp(const ServeOptions& options, TokenizerText text)
      : options_(options), text_(std::move(text)) {}

  Result<int> run() {
    FASTEEP_TRY(controller_, Controller::create(loop_, options_.engine));
    FASTEEP_TRY(server_, Server::create(loop_, *controller_, served_model(), options_.server));
    watch_signals();
    controller_->on_unserviceable([this] { end_unserviceable(); });
    const auto progress = [this](const StartProgress& p) {
      display_.on_progress(p, static_cast<int>(controller_->plan().ranks.size()));
    };
    controller_->start(progress, [this](Result<void> started) { on_started(std::move(started)); });
    loop_.run();
    const int status = controller_->exit_status();
    server_.reset();
    if (start_error_) return *start_error_;
    return status;
  }

 private:
  ServedModel served_model() const {
    const InstancePlan& plan = controller_->plan();
    for (const std::string& warning : plan.generation.warnings) log_warning("{}", warning);
    return {model_names(options_),
            plan.max_model_len,
            plan.config.vocab_size,
            text_,
            defaults_of(plan.generation, options_.program.seed),
            plan.generation.eos_ids};
  }

  void on_started(Result<void> started) {
    if (!started) {
      start_error_ = started.error();
      return end();
    }
    fmt::print("ready:\n{}", start_summary(*controller_));
    const std::string host = options_.server.host == "0.0.0.0" ? "127.0.0.1" : options_.server.host;
    const std::string key =
        options_.server.api_key.empty() ? "" : "-H 'Authorization: Bearer KEY' ";
    fmt::print(
        "try it:\n  curl http://{}:{}/v1/chat/completions -H 'Content-Type: application/json' {}-d "
        "'{{\"messages\": [{{\"role\": \"user\", \"content\": \"What is 12 + 30?\"}}]}}'\n",
        host, server_->port(), key);
    std::fflush(stdout);
  }

  void watch_signals() {
    signals_.async_wait([this](const boost::system::error_code& error, int signal) {
      if (error) return;
      on_signal(signal);
      watch_signals();
    });
  }

  void on_signal(int signal) {
    if (++num_signals_ > 1) {
      fmt::print("signal {} again: stopping at once\n", signal);
      std::fflush(stdout);
      return end();
    }
    fmt::print("signal {}: finishing what runs; again to stop at once\n", signal);
    std::fflush(stdout);
    server_->drain([this] { controller_->drain([this] { end(); }); });
  }

  void end_unserviceable() {
    log_error("{}: ending with status {}", controller_->status().not_ready_reason,
              controller_->exit_status());
    server_->drain([this] { end(); });
  }

  void end() {
    if (is_ending_) return;
    is_ending_ = true;
    controller_->stop([this] {
      server_->stop();
      signals_.cancel();
      loop_.stop();
    });
  }

  const ServeOptions& options_;
  TokenizerText text_;
  boost::asio::io_context loop_{1};
  boost::asio::signal_set signals_{loop_, SIGINT, SIGTERM};
  std::unique_ptr<Controller> controller_;
  std::unique_ptr<Server> server_;  // after the controller: it dies first
  StartDisplay display_;
  std::optional<Error> start_error_;
  int num_signals_ = 0;
  bool is_ending_ = false;
};

Result<int> serve(ServeOptions& options) {
  setup_logging("controller", options.program.log_level);
  fmt::print("fasteep {} serves {}\n", FASTEEP_VERSION, options.engine.model);
  std::fflush(stdout);
  FASTEEP_TRY(TokenizerText text, load_text(options.engine));
  return ServeApp(options, std::move(text)).run();
}

}  // namespace

Command make_serve_command(CLI::App& app) {
  CLI::App* serve_app = app.add_subcommand("serve", "Serve a model over HTTP");
  auto options = std::make_shared<ServeOptions>();
  auto flags = std::make_shared<Flags>(
      *serve_app, std::shared_ptr<const SettingsTable>(options, &options->table), true);
  serve_app->add_option("MODEL", options->engine.model, "a Hugging Face folder");
  return {serve_app, [=]() -> Result<int> {
            FASTEEP_TRY_VOID(flags->apply());
            if (options->engine.model.empty()) {
              return invalid_input("which model? `fasteep serve MODEL`, a Hugging Face folder");
            }
            return serve(*options);
          }};
}

Command make_settings_command(CLI::App& app) {
  CLI::App* settings = app.add_subcommand("settings", "List the settings of `fasteep serve`");
  auto markdown = std::make_shared<bool>(false);
  settings->add_flag("--markdown", *markdown, "as the page docs/settings.md");
  return {settings, [=]() -> Result<int> {
            const ServeOptions options;
            if (*markdown)
              fmt::print(
                  "# Settings of `fasteep serve`\n\nMade by `make docs`. In a `--config` file, the "
                  "same names without dashes in front.\n\n");
            fmt::print("{}", options.table.markdown());
            return 0;
          }};
}

}  // namespace fasteep
