#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/bench_instance.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/model_work.h"
#include "model/synth.h"

namespace fasteep {
namespace {

struct BenchOptions {
  std::string model;
  std::string preset = "bench-s";
  std::string folder = "build/bench-models";
  std::string dtype = "auto";
  std::string report;
  int threads = 2;
  int rounds = 5;
  int decode_tokens = 48;
  int prefill_tokens = 512;
  bool compare_ep = true;

  template <class V>
  void visit(V& v) {
    v(preset, "preset", "model to make (once) and measure, if no MODEL is given");
    v(folder, "folder", "where made models are kept");
    v(dtype, "dtype", "as of serve", Choices{{"auto", "float32", "bfloat16"}});
    v(threads, "threads", "compute threads in all: EP 1 x THREADS against EP THREADS x 1",
      Range{1, 64});
    v(rounds, "rounds", "times that everything is measured, interleaved", Range{1, 100});
    v(decode_tokens, "decode-tokens", "tokens of each decode measurement", Range{4, 4096});
    v(prefill_tokens, "prefill-tokens", "length of the prefill", Range{16, 16384});
    v(compare_ep, "compare-ep", "also measure EP THREADS x 1 thread");
    v(report, "report", "file for the figures as JSON");
  }
};

Result<std::string> model_folder(const BenchOptions& options) {
  if (!options.model.empty()) return options.model;
  const std::string folder = options.folder + "/" + options.preset;
  if (std::filesystem::exists(folder + "/config.json")) return folder;  // complete: written last
  fmt::print("making {} (once)\n", folder);
  std::fflush(stdout);
  FASTEEP_TRY(const std::string config, synth_preset(options.preset));
  std::error_code ignored;
  std::filesystem::create_directories(options.folder, ignored);
  SynthOptions synth;
  synth.folder = folder;
  synth.seed = 1;
  synth.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  FASTEEP_TRY_VOID(synthesize(config, synth));
  return folder;
}

// The measurements of one run: two instances that take turns, probes before and after each round.
class EngineBench {
 public:
  EngineBench(const BenchOptions& options, std::string folder)
      : options_(options), folder_(std::move(folder)) {}

  Result<BenchReport> run() {
    FASTEEP_TRY(wide_, BenchInstance::start(engine_options(1, options_.threads), 1));
    if (options_.compare_ep) {
      FASTEEP_TRY(ranks_, BenchInstance::start(engine_options(options_.threads, 1), 2));
    }
    work_ = model_work(wide_->plan().config, wide_->plan().dtype);
    describe();
    say("warming up");
    FASTEEP_TRY_VOID(warm_up());
    MachineProbe before = probe();
    for (int round = 0; round < options_.rounds; ++round) {
      say(fmt::format("round {} of {}", round + 1, options_.rounds));
      FASTEEP_TRY(const auto values, measure());
      const MachineProbe after = probe();
      keep(before, after, values);
      before = after;
    }
    return std::move(report_);
  }

 private:
  struct Case {
    size_t figure;
    std::function<Result<double>()> measure;
    std::function<double(const MachineProbe&)> bound;  // of the figure, from a probe
    std::vector<double> bounds;
  };

  EngineOptions engine_options(int ranks, int threads) const {
    EngineOptions engine;
    engine.model = folder_;
    engine.dtype = options_.dtype;
    engine.num_ranks = ranks;
    engine.threads_per_rank = threads;
    engine.enable_prefix_caching = false;
    engine.max_num_batched_tokens = std::max(512, options_.prefill_tokens);
    return engine;
  }

  void add(std::string what, std::string unit, std::string bound_text,
           std::function<Result<double>()> measure,
           std::function<double(const MachineProbe&)> bound) {
    Figure figure;
    figure.what = std::move(what);
    figure.unit = std::move(unit);
    figure.bound_text = std::move(bound_text);
    cases_.push_back({report_.figures.size(), std::move(measure), std::move(bound), {}});
    report_.figures.push_back(std::move(figure));
  }

  void describe() {
    report_.machine = cpu_name();
    report_.model = fmt::format("{} ({})", folder_, to_string(wide_->plan().dtype));
    report_.flags = fmt::format("--threads {} --rounds {}, kernels {}", options_.threads,
                                options_.rounds, to_string(wide_->plan().ranks.front().isa));
    const std::string wide_name = fmt::format("EP 1 x {} threads", options_.threads);
    for (const int sequences : {1, 16, 64}) add_decode(*wide_, wide_name, sequences);
    add(
        "prefill of " + std::to_string(options_.prefill_tokens) + ", " + wide_name, "tokens/s",
        "flops at the vector units' peak",
        [this]() -> Result<double> {
          FASTEEP_TRY(const double s, wide_->load().prefill_seconds(options_.prefill_tokens));
          return options_.prefill_tokens / s;
        },
        [this](const MachineProbe& p) {
          return options_.prefill_tokens * p.flops_per_s /
                 work_.prefill_flops(options_.prefill_tokens);
        });
    if (!ranks_) return;
    const std::string name = fmt::format("EP {} x 1 thread", options_.threads);
    for (const int sequences : {16, 64}) add_decode(*ranks_, name, sequences);
  }

  void add_decode(BenchInstance& instance, const std::string& name, int sequences) {
    add(
        fmt::format("decode of {}, {}", sequences, name), "tokens/s",
        "weight bytes at read bandwidth",
        [this, &instance, sequences] {
          return instance.load().decode_rate(sequences, options_.decode_tokens, 16);
        },
        [this, sequences](const MachineProbe& p) {
          return sequences * p.read_bytes_per_s / work_.decode_step_bytes(sequences);
        });
  }

  // Figures go to standard output, at the end.
  static void say(std::string_view what) { fmt::print(stderr, "bench: {}\n", what); }

  Result<void> warm_up() {
    const Result<std::vector<double>> values = measure();
    return values ? Result<void>() : Result<void>(values.error());
  }

  MachineProbe probe() {
    const auto& rank = wide_->plan().ranks.front();
    report_.probes.push_back(probe_machine(options_.threads, wide_->plan().dtype, rank.isa));
    return report_.probes.back();
  }

  Result<std::vector<double>> measure() {
    std::vector<double> values;
    for (Case& c : cases_) {
      FASTEEP_TRY(const double value, c.measure());
      values.push_back(value);
    }
    return values;
  }

  void keep(const MachineProbe& before, const MachineProbe& after,
            const std::vector<double>& values) {
    if (!agree(before, after)) {
      ++report_.rounds_dropped;
      return;
    }
    for (size_t i = 0; i < cases_.size(); ++i) {
      Figure& figure = report_.figures[cases_[i].figure];
      figure.values.push_back(values[i]);
      cases_[i].bounds.push_back((cases_[i].bound(before) + cases_[i].bound(after)) / 2);
      figure.bound = median(cases_[i].bounds);
    }
  }

  const BenchOptions& options_;
  std::string folder_;
  std::unique_ptr<BenchInstance> wide_, ranks_;
  ModelWork work_;
  std::vector<Case> cases_;
  BenchReport report_;
};

// The ratio of the median rates of two figures, both measured in every round.
std::string ratio_line(const BenchReport& report, const std::string& a, const std::string& b) {
  const auto find = [&](const std::string& what) -> const Figure* {
    for (const Figure& figure : report.figures) {
      if (figure.what == what && !figure.values.empty()) return &figure;
    }
    return nullptr;
  };
  const Figure *top = find(a), *bottom = find(b);
  if (top == nullptr || bottom == nullptr) return "";
  std::vector<double> ratios;
  for (size_t i = 0; i < top->values.size(); ++i)
    ratios.push_back(top->values[i] / bottom->values[i]);
  return fmt::format("{} / {}: {:.3f}\n", a, b, median(ratios));
}

Result<int> run_bench(const BenchOptions& options) {
  FASTEEP_TRY(const std::string folder, model_folder(options));
  FASTEEP_TRY(const BenchReport report, EngineBench(options, folder).run());
  fmt::print("{}", report.table());
  for (const int sequences : {16, 64}) {
    fmt::print(
        "{}", ratio_line(
                  report, fmt::format("decode of {}, EP {} x 1 thread", sequences, options.threads),
                  fmt::format("decode of {}, EP 1 x {} threads", sequences, options.threads)));
  }
  if (options.report.empty()) return 0;
  std::ofstream file(options.report);
  file << report.json();
  if (!file) return invalid_input("--report {}: cannot be written", options.report);
  return 0;
}

}  // namespace

Command make_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure, as shares of what the machine can do");
  CLI::App* engine = bench->add_subcommand("engine", "Offline decode and prefill throughput");
  auto options = std::make_shared<BenchOptions>();
  auto table = std::make_shared<SettingsTable>();
  table->add(*options);
  auto flags = std::make_shared<Flags>(*engine, table, false);
  engine->add_option("MODEL", options->model, "a Hugging Face folder (default: --preset)");
  bench->require_subcommand(1);
  return {bench, [=]() -> Result<int> {
            FASTEEP_TRY_VOID(flags->apply());
            return run_bench(*options);
          }};
}

}  // namespace fasteep
