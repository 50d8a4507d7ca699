#include "engine/surviving_view.h"

#include <algorithm>

namespace fasteep {
namespace {

constexpr size_t kNamedExperts = 4;

bool is_only_on(std::span<const Replica> replicas, RankId rank) {
  return std::ranges::all_of(replicas, [&](const Replica& r) { return r.rank == rank; });
}

}  // namespace

std::string experts_only_on(const View& view, RankId rank) {
  std::vector<std::pair<LayerId, ExpertId>> lost;
  for (const auto& [layer, expert] : view.experts_of(rank)) {
    if (is_only_on(view.replicas(layer, expert), rank)) lost.emplace_back(layer, expert);
  }
  if (lost.empty()) return "";
  std::string names;
  for (size_t i = 0; i < std::min(kNamedExperts, lost.size()); ++i) {
    if (lost[i].first != lost.front().first) break;
    names += fmt::format("{}{}", i == 0 ? "" : ", ", lost[i].second);
  }
  return fmt::format("experts {} of layer {} ({} in all)", names, lost.front().first, lost.size());
}

Result<View> without_rank(const View& view, RankId rank, Epoch epoch) {
  std::vector<Member> members;
  for (const Member& member : view.members()) {
    if (member.rank != rank) members.push_back(member);
  }
  std::vector<std::vector<Replica>> table;
  for (const LayerId layer : view.shape().moe_layers) {
    for (int expert = 0; expert < view.shape().num_experts; ++expert) {
      std::vector<Replica> row;
      for (const Replica& replica : view.replicas(layer, ExpertId(expert))) {
        if (replica.rank != rank) row.push_back(replica);
      }
      table.push_back(std::move(row));
    }
  }
  return View::create(epoch, std::move(members), view.shape(), std::move(table));
}

}  // namespace fasteep
