#include "exchange/call_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace fasteep {
namespace {
// A number that depends on nothing but the call's coordinates, so that a retry of the whole step
// asks the same ranks. Mixing as in SplitMix64 (Steele, Lea, Flood, 2014).
uint64_t mix(LayerId layer, ExpertId expert, int row) {
  uint64_t z = uint64_t{static_cast<uint32_t>(layer.value)} << 48 ^
               uint64_t { static_cast<uint32_t>(expert.value) } << 24 ^ static_cast<uint32_t>(row);
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
}  // namespace

void CallPlan::start(LayerId layer, Span2<const int32_t> ids, std::span<const ViewPtr> views,
                     std::span<const Incarnation> live) {
  CHECK(!views.empty(), "layer {}: no view is adopted", layer);
  CHECK(ids.stride() == ids.cols(), "ids must be contiguous");
  layer_ = layer;
  k_ = static_cast<int>(std::max<int64_t>(1, ids.cols()));
  ids_ = {ids.data(), static_cast<size_t>(ids.rows() * ids.cols())};
  num_missing_ = static_cast<int>(ids_.size());
  status_.assign(ids_.size(), Status::kQueued);
  target_.assign(ids_.size(), RankId(-1));
  for (auto& queue : queues_) queue.clear();
  refusals_.clear();
  lost_.clear();
  const int num_experts = views.front()->shape().num_experts;
  need_.assign(num_experts, views.front()->epoch());
  set_views(views, live);
  sort_by_expert(num_experts);
  for (int entry : order_) route(entry);
}

// A stable counting sort.
void CallPlan::sort_by_expert(int num_experts) {
  expert_start_.assign(num_experts + 1, 0);
  for (int32_t expert : ids_) {
    CHECK(expert >= 0 && expert < num_experts, "layer {}: expert {} of {}", layer_, expert,
          num_experts);
    ++expert_start_[expert + 1];
  }
  std::partial_sum(expert_start_.begin(), expert_start_.end(), expert_start_.begin());
  order_.resize(ids_.size());
  for (size_t entry = 0; entry < ids_.size(); ++entry) {
    order_[expert_start_[ids_[entry]]++] = static_cast<int>(entry);
  }
}

void CallPlan::set_views(std::span<const ViewPtr> views, std::span<const Incarnation> live) {
  views_.clear();
  live_.clear();
  for (const ViewPtr& view : views) {
    views_.push_back(view.get());
    auto& usable = live_.emplace_back();
    for (const Member& member : view->members()) {
      const auto rank = static_cast<size_t>(member.rank.value);
      usable[rank] = rank < live.size() && live[rank] == member.incarnation;
    }
  }
}

bool CallPlan::may_ask(size_t view, RankId rank, ExpertId expert) const {
  if (!live_[view][rank.value]) return false;
  for (const Refusal& refusal : refusals_) {
    if (refusal.rank == rank && refusal.expert == expert &&
        views_[view]->epoch() <= refusal.until) {
      return false;
    }
  }
  return true;
}

// Own rank first, else by the shares.
std::optional<RankId> CallPlan::choose_in(size_t view, int entry) const {
  const auto replicas = views_[view]->replicas(layer_, expert(entry));
  uint64_t shares = 0;
  for (const Replica& replica : replicas) {
    if (!may_ask(view, replica.rank, expert(entry))) continue;
    if (replica.rank == self_) return self_;
    shares += replica.share;
  }
  if (shares == 0) return std::nullopt;
  uint64_t draw = mix(layer_, expert(entry), row(entry)) % shares;
  for (const Replica& replica : replicas) {
    if (!may_ask(view, replica.rank, expert(entry))) continue;
    if (draw < replica.share) return replica.rank;
    draw -= replica.share;
  }
  return std::nullopt;
}

std::optional<RankId> CallPlan::choose(int entry) const {
  const Epoch need = need_[ids_[entry]];
  for (size_t view = 0; view < views_.size(); ++view) {
    if (views_[view]->epoch() < need) continue;
    if (auto rank = choose_in(view, entry)) return rank;
  }
  return std::nullopt;
}

void CallPlan::route(int entry) {
  if (auto rank = choose(entry)) {
    status_[entry] = Status::kQueued;
    target_[entry] = *rank;
    queues_[rank->value].push_back(entry);
    return;
  }
  const bool may_come = need_[ids_[entry]] > views_.back()->epoch();
  status_[entry] = may_come ? Status::kParked : Status::kLost;
  if (!may_come) lost_.push_back(entry);
}

void CallPlan::take(RankId rank, int limit, std::vector<int>& entries) {
  auto& queue = queues_[rank.value];
  size_t count = std::min(queue.size(), static_cast<size_t>(limit));
  if (count < queue.size()) {
    size_t whole = count;
    while (whole > 0 && ids_[queue[whole - 1]] == ids_[queue[count]]) --whole;
    if (whole > 0) count = whole;
  }
  const auto end = queue.begin() + static_cast<std::ptrdiff_t>(count);
  entries.assign(queue.begin(), end);
  queue.erase(queue.begin(), end);
  for (int entry : entries) status_[entry] = Status::kAsked;
}

void CallPlan::on_answer(int entry) {
  CHECK(status_[entry] == Status::kAsked, "entry {} was answered but not asked", entry);
  status_[entry] = Status::kDone;
  --num_missing_;
}

void CallPlan::on_refused(RankId by, int entry, Epoch callee_newest, Epoch known) {
  CHECK(status_[entry] == Status::kAsked, "entry {} was refused but not asked", entry);
  Epoch& need = need_[ids_[entry]];
  need = std::max(need, callee_newest);
  const Epoch until = std::max(callee_newest, known);
  const bool is_known = std::any_of(refusals_.begin(), refusals_.end(), [&](const Refusal& r) {
    return r.rank == by && r.expert == expert(entry) && r.until >= until;
  });
  if (!is_known) refusals_.push_back({expert(entry), by, until});
  route(entry);
}

void CallPlan::on_lost(RankId rank) {
  for (auto& usable : live_) usable.reset(rank.value);
  queues_[rank.value].clear();
  for (int entry : order_) {
    const bool is_waiting = status_[entry] == Status::kQueued || status_[entry] == Status::kAsked;
    if (is_waiting && target_[entry] == rank) route(entry);
  }
}

void CallPlan::on_view(std::span<const ViewPtr> views, std::span<const Incarnation> live) {
  set_views(views, live);
  lost_.clear();
  for (int entry : order_) {
    if (status_[entry] == Status::kParked || status_[entry] == Status::kLost) route(entry);
  }
}

Epoch CallPlan::awaited_epoch() const {
  Epoch awaited;
  for (int entry : order_) {
    if (status_[entry] == Status::kParked) awaited = std::max(awaited, need_[ids_[entry]]);
  }
  return awaited;
}

Error CallPlan::loss() const {
  std::set<int32_t> experts, gone, refusing;
  for (int entry : lost_) {
    experts.insert(ids_[entry]);
    for (const Replica& replica : views_.back()->replicas(layer_, expert(entry))) {
      (live_.back()[replica.rank.value] ? refusing : gone).insert(replica.rank.value);
    }
  }
  std::string text = fmt::format("{} {} of layer {} ", experts.size() == 1 ? "expert" : "experts",
                                 fmt::join(experts, ", "), layer_);
  const bool is_one = experts.size() == 1;
  if (!gone.empty()) {
    text += fmt::format("{} on {} {}, which {} gone", is_one ? "was" : "were",
                        gone.size() == 1 ? "rank" : "ranks", fmt::join(gone, ", "),
                        gone.size() == 1 ? "is" : "are");
  }
  if (!refusing.empty()) {
    text += fmt::format("{}{} refused by {} {} under epoch {}", gone.empty() ? "" : ", ",
                        is_one ? "was" : "were", refusing.size() == 1 ? "rank" : "ranks",
                        fmt::join(refusing, ", "), views_.back()->epoch());
  }
  text += is_one ? ", and has no replica" : ", and have no replica";
  return Error(ErrorCode::kPeerLost, text);
}

}  // namespace fasteep
