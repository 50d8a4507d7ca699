#include "rank/rank_settings.h"

namespace fasteep {
namespace {

constexpr int kMaxCpu = 1 << 20;

Result<DType> parse_dtype(const std::string& name) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    if (to_string(dtype) == name) return dtype;
  }
  return invalid_input("dtype \"{}\"", name);
}

Result<int> in_range(int value, int low, int high, std::string_view name) {
  if (value < low || value > high) {
    return invalid_input("{} is {}, not within {} to {}", name, value, low, high);
  }
  return value;
}

void fill(const SchedulerOptions& options, api::SchedulerSettings& message) {
  message.set_max_num_seqs(options.max_num_seqs);
  message.set_max_num_batched_tokens(options.max_num_batched_tokens);
  message.set_block_tokens(options.block_tokens);
  message.set_num_blocks(options.num_blocks);
  message.set_max_model_len(options.max_model_len);
  message.set_max_waiting(options.max_waiting);
  message.set_prefill_chunk(options.prefill_chunk);
  message.set_prefix_cache(options.prefix_cache);
}

Result<SchedulerOptions> to_scheduler_options(const api::SchedulerSettings& message) {
  constexpr int kMany = 1 << 30;
  SchedulerOptions options;
  FASTEEP_TRY(options.max_num_seqs, in_range(message.max_num_seqs(), 1, kMany, "max_num_seqs"));
  FASTEEP_TRY(options.max_num_batched_tokens,
              in_range(message.max_num_batched_tokens(), 1, 1 << 16, "max_num_batched_tokens"));
  FASTEEP_TRY(options.block_tokens, in_range(message.block_tokens(), 1, 4096, "block_tokens"));
  FASTEEP_TRY(options.num_blocks, in_range(message.num_blocks(), 1, kMany, "num_blocks"));
  FASTEEP_TRY(options.max_model_len, in_range(message.max_model_len(), 1, kMany, "max_model_len"));
  FASTEEP_TRY(options.max_waiting, in_range(message.max_waiting(), 0, kMany, "max_waiting"));
  FASTEEP_TRY(options.prefill_chunk, in_range(message.prefill_chunk(), 0, kMany, "prefill_chunk"));
  options.prefix_cache = message.prefix_cache();
  return options;
}

Result<void> check_cpus(const RankSettings& settings) {
  if (!settings.cpus.empty() && settings.cpus.size() != static_cast<size_t>(settings.threads)) {
    return invalid_input("{} CPUs for {} threads", settings.cpus.size(), settings.threads);
  }
  for (const int cpu : settings.cpus) {
    if (cpu < 0 || cpu > kMaxCpu) return invalid_input("cpu is {}", cpu);
  }
  return {};
}

}  // namespace

api::Configure to_message(const RankSettings& settings) {
  api::Configure message;
  message.set_protocol_version(kRankProtocolVersion);
  message.set_rank(settings.rank.value);
  message.set_incarnation(settings.incarnation.value);
  message.set_model_folder(settings.model_folder);
  message.set_dtype(std::string(to_string(settings.dtype)));
  message.set_isa(std::string(to_string(settings.isa)));
  message.set_threads(settings.threads);
  message.mutable_cpus()->Assign(settings.cpus.begin(), settings.cpus.end());
  message.set_max_ranks(settings.max_ranks);
  message.set_may_spin(settings.may_spin);
  fill(settings.scheduler, *message.mutable_scheduler());
  message.set_device_memory_bytes(settings.device_memory_bytes);
  message.set_num_slots(settings.num_slots);
  message.set_log_level(settings.log_level);
  message.set_usable_vocab(settings.usable_vocab);
  return message;
}

Result<RankSettings> to_settings(const api::Configure& message) {
  if (message.protocol_version() != kRankProtocolVersion) {
    return invalid_input("the controller speaks version {}, this rank {}: use one program for both",
                         message.protocol_version(), kRankProtocolVersion);
  }
  RankSettings settings;
  FASTEEP_TRY(settings.max_ranks, in_range(message.max_ranks(), 1, kMaxRanks, "max_ranks"));
  FASTEEP_TRY(settings.rank.value, in_range(message.rank(), 0, settings.max_ranks - 1, "rank"));
  settings.incarnation = Incarnation(message.incarnation());
  if (message.incarnation() == 0) return invalid_input("incarnation is 0");
  settings.model_folder = message.model_folder();
  FASTEEP_TRY(settings.dtype, parse_dtype(message.dtype()));
  FASTEEP_TRY(settings.isa, parse_isa(message.isa()));
  FASTEEP_TRY(settings.threads, in_range(message.threads(), 1, 1024, "threads"));
  settings.cpus.assign(message.cpus().begin(), message.cpus().end());
  FASTEEP_TRY_VOID(check_cpus(settings));
  settings.may_spin = message.may_spin();
  FASTEEP_TRY(settings.scheduler, to_scheduler_options(message.scheduler()));
  settings.device_memory_bytes = message.device_memory_bytes();
  FASTEEP_TRY(settings.num_slots, in_range(message.num_slots(), 0, 1 << 24, "num_slots"));
  settings.log_level = message.log_level();
  FASTEEP_TRY(settings.usable_vocab, in_range(message.usable_vocab(), 0, 1 << 30, "usable_vocab"));
  return settings;
}

ExchangeOptions exchange_options(const RankSettings& settings, const ModelConfig& config) {
  ExchangeOptions options;
  options.rank = settings.rank;
  options.incarnation = settings.incarnation;
  options.max_ranks = settings.max_ranks;
  options.max_rows = settings.scheduler.max_num_batched_tokens;
  options.top_k = config.top_k;
  options.shape = config.expert_shape(settings.dtype);
  options.may_spin = settings.may_spin;
  return options;
}

}  // namespace fasteep
