#include "cli/start_display.h"

#include <algorithm>

#include "base/settings_table.h"

namespace fasteep {
namespace {

constexpr double kLineEverySeconds = 2;

int replicas_per_layer(const View& view) {
  if (view.shape().moe_layers.empty()) return 0;
  int count = 0;
  for (int e = 0; e < view.shape().num_experts; ++e) {
    count += static_cast<int>(view.replicas(view.shape().moe_layers.front(), ExpertId(e)).size());
  }
  return count;
}

}  // namespace

void StartDisplay::on_progress(const StartProgress& progress, int num_ranks) {
  Phase& phase = phases_[progress.phase];
  phase.ranks[progress.rank] = progress;
  int64_t done = 0, total = 0;
  int complete = 0;
  for (const auto& [rank, latest] : phase.ranks) {
    done += latest.done;
    total += latest.total;
    complete += latest.done >= latest.total ? 1 : 0;
  }
  const bool ends = complete == num_ranks && !phase.ended;
  if (!ends && (phase.ended || progress.seconds - phase.last_line_s < kLineEverySeconds)) return;
  phase.ended = phase.ended || ends;
  phase.last_line_s = progress.seconds;
  const std::string bytes =
      total > 0 ? fmt::format(", {} of {}", format_bytes(done), format_bytes(total)) : "";
  fmt::print("{:7.2f} s  {}: {} of {} ranks{}\n", progress.seconds, progress.phase, complete,
             num_ranks, bytes);
  std::fflush(stdout);
}

std::string start_summary(const Controller& controller) {
  const InstancePlan& plan = controller.plan();
  const EngineStatus status = controller.status();
  const View& view = *plan.first_view;
  int64_t kv_tokens = 0;
  std::map<std::string, int64_t> bytes;
  for (const RankStatus& rank : status.ranks) {
    kv_tokens = kv_tokens == 0 ? rank.kv_tokens : std::min(kv_tokens, rank.kv_tokens);
    for (const auto& [tag, size] : rank.bytes_by_tag) bytes[tag] = std::max(bytes[tag], size);
  }
  const RankSettings& first = plan.ranks.front();
  std::string out = fmt::format("  ranks            {} x {} thread{}, kernels {}, {}\n",
                                status.ranks.size(), first.threads, first.threads == 1 ? "" : "s",
                                to_string(first.isa), to_string(plan.dtype));
  out += fmt::format("  experts          {} per layer, {} replicas, {} slots per rank\n",
                     view.shape().num_experts, replicas_per_layer(view), first.num_slots);
  out += fmt::format("  context          {} tokens, KV for {} tokens per rank\n",
                     plan.max_model_len, kv_tokens);
  out += "  memory per rank ";
  for (const auto& [tag, size] : bytes) out += fmt::format(" {} {},", tag, format_bytes(size));
  out.back() = '\n';
  return out;
}

}  // namespace fasteep
