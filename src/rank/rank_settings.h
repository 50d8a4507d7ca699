#pragma once
// What the controller decides for one rank before it starts.
#include <string>
#include <vector>

#include "base/result.h"
#include "exchange/exchange.h"
#include "kernels/isa.h"
#include "model/model_config.h"
#include "rank/api.pb.h"
#include "scheduler/scheduler.h"

namespace fasteep {

inline constexpr uint32_t kRankProtocolVersion = 1;

struct RankSettings {
  RankId rank;
  Incarnation incarnation{1};
  std::string model_folder;
  DType dtype = DType::kBFloat16;
  Isa isa = Isa::kPortable;
  int threads = 1;
  std::vector<int> cpus;  // one a thread, or none: not pinned
  int max_ranks = 1;
  bool may_spin = true;
  SchedulerOptions scheduler;
  size_t device_memory_bytes = 0;
  int num_slots = 0;
  int usable_vocab = 0;  // ids from here on are padding and never sampled; 0: none is padding
  std::string log_level = "info";
};

api::Configure to_message(const RankSettings& settings);
Result<RankSettings> to_settings(const api::Configure& message);

// The same on both sides: it gives the size of the window that the controller creates.
ExchangeOptions exchange_options(const RankSettings& settings, const ModelConfig& config);

}  // namespace fasteep
