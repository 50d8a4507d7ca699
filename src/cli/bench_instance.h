#pragma once
// An instance without HTTP, started for a benchmark and kept until it is destroyed.
#include <boost/asio/io_context.hpp>
#include <memory>

#include "cli/bench_load.h"
#include "engine/controller.h"

namespace fasteep {

// Threads: one. Idle instances use no CPU, so several can be alive and measured in turn.
class BenchInstance {
 public:
  static Result<std::unique_ptr<BenchInstance>> start(const EngineOptions& options, uint64_t seed);

  BenchLoad& load() { return *load_; }
  const InstancePlan& plan() const { return controller_->plan(); }

 private:
  BenchInstance() = default;

  boost::asio::io_context loop_{1};
  std::unique_ptr<Controller> controller_;
  std::optional<BenchLoad> load_;
};

}  // namespace fasteep
