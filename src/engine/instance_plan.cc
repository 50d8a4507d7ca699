#include "engine/instance_plan.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/settings_table.h"
#include "model/checkpoint.h"
#include "model/weight_source.h"
#include "placement/placement.h"

namespace fasteep {
namespace {

// Left to the controller, page tables and the rest of the machine.
constexpr double kMemoryShare = 0.9;
// Without --device-memory the KV does not take all there is: prefixes of this many tokens for each
// sequence of a step are kept, or of two of the longest ones.
constexpr int64_t kKvTokensPerSequence = 1024;

Result<void> check_model(const std::string& folder, const ModelConfig& config) {
  FASTEEP_TRY(const Checkpoint checkpoint, Checkpoint::open(folder));
  const auto source = WeightSource::create(checkpoint, config);
  return source ? Result<void>() : Result<void>(source.error());
}

DType choose_dtype(const EngineOptions& options, const ModelConfig& config) {
  if (options.dtype == "float32") return DType::kFloat32;
  if (options.dtype == "bfloat16") return DType::kBFloat16;
  return config.native_dtype;
}

// Ranks that differed would differ in bits: one choice for all.
Result<Isa> choose_isa(const EngineOptions& options, DType dtype) {
  if (options.kernel_isa == "auto") return fastest_isa(dtype);
  FASTEEP_TRY(const Isa isa, parse_isa(options.kernel_isa));
  const std::vector<Isa> supported = supported_isas();
  if (std::find(supported.begin(), supported.end(), isa) == supported.end()) {
    return invalid_input("--kernel-isa {}: this CPU does not have it", options.kernel_isa);
  }
  return isa;
}

Result<int> choose_max_model_len(const EngineOptions& options, const ModelConfig& config) {
  if (options.max_model_len == 0) return config.max_model_len;
  if (options.max_model_len > config.max_model_len) {
    return invalid_input("--max-model-len {}: the model's positions end at {}",
                         options.max_model_len, config.max_model_len);
  }
  return options.max_model_len;
}

Result<void> check_options(const EngineOptions& options) {
  if (options.block_size % 16 != 0) {
    return invalid_input("--block-size {}: it must be a multiple of 16", options.block_size);
  }
  if (options.max_ranks != 0 && options.max_ranks < options.num_ranks) {
    return invalid_input("--max-ep-size {} is below --data-parallel-size {}", options.max_ranks,
                         options.num_ranks);
  }
  return {};
}

Result<ViewPtr> place_experts(const EngineOptions& options, const ModelConfig& config) {
  std::vector<Member> members;
  for (int rank = 0; rank < options.num_ranks; ++rank) {
    members.push_back({RankId(rank), Incarnation(1)});
  }
  auto view = initial_view(Epoch(1), std::move(members), config.moe_shape(),
                           {options.num_redundant_experts});
  if (!view) return view.error().with("--num-redundant-experts");
  return ViewPtr(std::make_shared<const View>(std::move(*view)));
}

// Outboxes and answers are touched as they are used: about this much when every row of a full step
// goes to other ranks, and every answer row is for others.
size_t expected_window_bytes(const ExchangeOptions& options, size_t window_bytes) {
  if (options.max_ranks == 1) return std::min(window_bytes, kSlabBytes);
  const size_t rows = static_cast<size_t>(options.max_rows);
  const size_t hidden = static_cast<size_t>(options.shape.hidden);
  const size_t answers = rows * static_cast<size_t>(options.top_k) * hidden * sizeof(float);
  return std::min(window_bytes, rows * hidden * size_bytes(options.shape.dtype) + 2 * answers);
}

int blocks_of(int64_t tokens, int block_tokens) {
  return static_cast<int>((tokens + block_tokens - 1) / block_tokens);
}

// Blocks that are worth having when nobody said how much memory to use.
int useful_blocks(const EngineOptions& options, int max_model_len) {
  const int64_t per_sequence = std::min<int64_t>(kKvTokensPerSequence, max_model_len);
  const int64_t tokens =
      std::max<int64_t>(options.max_num_seqs * per_sequence, int64_t{2} * max_model_len);
  return blocks_of(tokens, options.block_size);
}

// Sizes of one rank: they are the same for all, by the rank with most experts.
class MemoryPlanner {
 public:
  MemoryPlanner(const EngineOptions& options, const InstancePlan& plan, MemoryRequest request,
                size_t available)
      : options_(options), plan_(plan), request_(request), available_(available) {}

  size_t capacity() const {
    if (options_.device_memory > 0) return static_cast<size_t>(options_.device_memory);
    return static_cast<size_t>(static_cast<double>(available_) * kMemoryShare) /
           static_cast<size_t>(options_.num_ranks);
  }

  Result<int> kv_blocks() const {
    const int least = blocks_of(plan_.max_model_len, options_.block_size);
    if (options_.num_kv_blocks > 0 && options_.num_kv_blocks < least) {
      return invalid_input("--num-kv-blocks {}: a sequence of {} tokens (--max-model-len) needs {}",
                           options_.num_kv_blocks, plan_.max_model_len, least);
    }
    FASTEEP_TRY(const int blocks, kv_blocks_that_fit(plan_.config, request_, capacity(),
                                                     plan_.max_model_len, wish()));
    if (options_.num_kv_blocks > blocks) {
      return make_error(ErrorCode::kExhausted,
                        "not enough memory: {} KV blocks fit a rank's {}: lower --num-kv-blocks {} "
                        "or raise --device-memory",
                        blocks, format_bytes(capacity()), options_.num_kv_blocks);
    }
    return blocks;
  }

  Result<MemoryPlan> memory(int kv_blocks) const {
    const MemoryPlan memory = plan_memory(plan_.config, request_, kv_blocks);
    const size_t all = memory.total() * static_cast<size_t>(options_.num_ranks);
    if (all > available_) {
      return make_error(ErrorCode::kExhausted,
                        "not enough memory: {} ranks need {} ({} each), {} are available: lower "
                        "--device-memory or --data-parallel-size",
                        options_.num_ranks, format_bytes(all), memory.text(),
                        format_bytes(available_));
    }
    return memory;
  }

 private:
  int wish() const {
    if (options_.num_kv_blocks > 0) return options_.num_kv_blocks;
    if (options_.device_memory > 0) return 1 << 24;
    return useful_blocks(options_, plan_.max_model_len);
  }

  const EngineOptions& options_;
  const InstancePlan& plan_;
  MemoryRequest request_;
  size_t available_;
};

RankSettings common_settings(const EngineOptions& options, const InstancePlan& plan, Isa isa) {
  RankSettings settings;
  settings.model_folder = options.model;
  settings.dtype = plan.dtype;
  settings.isa = isa;
  settings.max_ranks = std::max(options.max_ranks, options.num_ranks);
  settings.scheduler.max_num_seqs = options.max_num_seqs;
  settings.scheduler.max_num_batched_tokens = options.max_num_batched_tokens;
  settings.scheduler.block_tokens = options.block_size;
  settings.scheduler.max_model_len = plan.max_model_len;
  // All that the router lets through may stand in the queue before the first step.
  settings.scheduler.max_waiting = options.max_num_seqs + options.max_waiting_requests;
  settings.scheduler.prefill_chunk = options.max_prefill_chunk;
  settings.scheduler.prefix_cache = options.enable_prefix_caching;
  const auto level = spdlog::level::to_string_view(spdlog::get_level());
  settings.log_level = std::string(level.data(), level.size());
  settings.usable_vocab = options.usable_vocab;
  return settings;
}

void choose_cores(const EngineOptions& options, const Machine& machine, InstancePlan& plan) {
  const int cores = static_cast<int>(machine.cpus.size());
  const int threads = options.threads_per_rank > 0 ? options.threads_per_rank
                                                   : std::max(1, cores / options.num_ranks);
  const auto cpus = assign_cpus(machine.cpus, options.num_ranks, threads);
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    plan.ranks[rank].threads = threads;
    plan.ranks[rank].may_spin = threads * options.num_ranks <= cores;
    if (options.pin_threads) plan.ranks[rank].cpus = cpus[rank];
  }
}

Result<void> choose_memory(const EngineOptions& options, const Machine& machine,
                           InstancePlan& plan) {
  MemoryRequest request;
  request.dtype = plan.dtype;
  request.max_rows = options.max_num_batched_tokens;
  request.block_tokens = options.block_size;
  for (const RankSettings& rank : plan.ranks) {
    request.num_slots = std::max(request.num_slots, rank.num_slots);
  }
  const ExchangeOptions exchange = exchange_options(plan.ranks.front(), plan.config);
  plan.window_bytes = Exchange::window_size_bytes(exchange);
  request.exchange_bytes = expected_window_bytes(exchange, plan.window_bytes);
  const MemoryPlanner planner(options, plan, request, machine.available_bytes);
  FASTEEP_TRY(const int kv_blocks, planner.kv_blocks());
  FASTEEP_TRY(plan.memory, planner.memory(kv_blocks));
  for (RankSettings& rank : plan.ranks) {
    rank.scheduler.num_blocks = kv_blocks;
    rank.device_memory_bytes = planner.capacity();
  }
  return {};
}

}  // namespace

Result<InstancePlan> plan_instance(const EngineOptions& options, const Machine& machine) {
  FASTEEP_TRY_VOID(check_options(options));
  InstancePlan plan;
  FASTEEP_TRY(plan.config, load_config(options.model));
  FASTEEP_TRY(plan.generation, load_generation_config(options.model, plan.config));
  FASTEEP_TRY_VOID(check_model(options.model, plan.config));
  plan.dtype = choose_dtype(options, plan.config);
  FASTEEP_TRY(plan.max_model_len, choose_max_model_len(options, plan.config));
  FASTEEP_TRY(const Isa isa, choose_isa(options, plan.dtype));
  FASTEEP_TRY(plan.first_view, place_experts(options, plan.config));
  plan.ranks.assign(static_cast<size_t>(options.num_ranks), common_settings(options, plan, isa));
  for (int rank = 0; rank < options.num_ranks; ++rank) {
    RankSettings& settings = plan.ranks[static_cast<size_t>(rank)];
    settings.rank = RankId(rank);
    settings.num_slots = static_cast<int>(plan.first_view->experts_of(RankId(rank)).size());
  }
  choose_cores(options, machine, plan);
  FASTEEP_TRY_VOID(choose_memory(options, machine, plan));
  return plan;
}

}  // namespace fasteep
