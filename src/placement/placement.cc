#include "placement/placement.h"

#include <algorithm>

namespace fasteep {
namespace {

// The slots of one MoE layer while experts are dealt onto them. Ranks are indices into the members.
class LayerDeal {
 public:
  LayerDeal(int num_experts, int num_ranks, int first_rank)
      : slots_used_(static_cast<size_t>(num_ranks)),
        ranks_of_(static_cast<size_t>(num_experts)),
        next_rank_(first_rank) {}

  void deal_once() {
    for (size_t e = 0; e < ranks_of_.size(); ++e) give(e, static_cast<size_t>(next_rank_));
  }

  // One more replica, on a rank with the fewest slots used. A rank with the fewest lacks an expert
  // unless all ranks hold all experts, so ranks never differ by more than one slot.
  void add_replica() {
    const size_t rank = emptiest_rank();
    size_t best = ranks_of_.size();
    for (size_t e = 0; e < ranks_of_.size(); ++e)
      if (!holds(rank, e) &&
          (best == ranks_of_.size() || ranks_of_[e].size() < ranks_of_[best].size()))
        best = e;
    CHECK(best < ranks_of_.size(), "rank {} holds every expert already", rank);
    give(best, rank);
  }

  const std::vector<size_t>& ranks_of(size_t expert) const { return ranks_of_[expert]; }
  int next_rank() const { return next_rank_; }

 private:
  void give(size_t expert, size_t rank) {
    ranks_of_[expert].push_back(rank);
    ++slots_used_[rank];
    next_rank_ = static_cast<int>((rank + 1) % slots_used_.size());
  }
  bool holds(size_t rank, size_t expert) const {
    const std::vector<size_t>& ranks = ranks_of_[expert];
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }
  // Ties go to the rank whose turn it is, as when dealing.
  size_t emptiest_rank() const {
    const size_t n = slots_used_.size();
    size_t best = static_cast<size_t>(next_rank_);
    for (size_t i = 1; i < n; ++i) {
      const size_t rank = (static_cast<size_t>(next_rank_) + i) % n;
      if (slots_used_[rank] < slots_used_[best]) best = rank;
    }
    return best;
  }

  std::vector<int> slots_used_;                // per rank
  std::vector<std::vector<size_t>> ranks_of_;  // per expert, first dealt first
  int next_rank_;
};

Result<void> check_budget(size_t num_ranks, int num_experts, int num_redundant) {
  if (num_ranks < 1 || num_ranks > kMaxRanks)
    return invalid_input("{} ranks; 1 to {} are possible", num_ranks, kMaxRanks);
  if (num_experts < 1) return invalid_input("the model has {} experts per MoE layer", num_experts);
  if (num_redundant < 0) return invalid_input("{} redundant experts; use 0 or more", num_redundant);
  const int64_t possible = static_cast<int64_t>(num_experts) * static_cast<int64_t>(num_ranks - 1);
  if (num_redundant > possible)
    return invalid_input(
        "{} redundant experts; {} experts on {} ranks can have at most {} (a replica on every "
        "rank)",
        num_redundant, num_experts, num_ranks, possible);
  return {};
}

}  // namespace

int slots_per_layer(int num_experts, int num_redundant_experts, int num_ranks) {
  CHECK(num_ranks > 0, "{} ranks", num_ranks);
  return (num_experts + num_redundant_experts + num_ranks - 1) / num_ranks;
}

Result<View> initial_view(Epoch epoch, std::vector<Member> members, ModelShape shape,
                          const PlacementOptions& options) {
  const int redundant = options.num_redundant_experts;
  FASTEEP_TRY_VOID(check_budget(members.size(), shape.num_experts, redundant));
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.rank < b.rank; });
  std::vector<std::vector<Replica>> table;
  int first_rank = 0;
  for (size_t layer = 0; layer < shape.moe_layers.size(); ++layer) {
    LayerDeal deal(shape.num_experts, static_cast<int>(members.size()), first_rank);
    deal.deal_once();
    for (int i = 0; i < redundant; ++i) deal.add_replica();
    for (size_t e = 0; e < static_cast<size_t>(shape.num_experts); ++e) {
      std::vector<Replica>& replicas = table.emplace_back();
      for (const size_t rank : deal.ranks_of(e)) replicas.push_back({members[rank].rank});
    }
    first_rank = deal.next_rank();
  }
  return View::create(epoch, std::move(members), std::move(shape), std::move(table));
}

}  // namespace fasteep
