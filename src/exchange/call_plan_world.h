#pragma once
// A world around one CallPlan, for tests: callees with slots, views that are published and seen
// late, deaths, late answers. Every event is a choice, so a test can draw or explore them. Include
// from
// *_test.cc only.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exchange/call_plan.h"

namespace fasteep {

// replicas[v][e]: ranks that hold expert e in view v + 1. One MoE layer, number 0.
using Placement = std::vector<std::vector<int>>;

inline ViewPtr plan_view(uint64_t epoch, int num_ranks, const Placement& placement) {
  std::vector<Member> members;
  for (int rank = 0; rank < num_ranks; ++rank) members.push_back({RankId(rank), Incarnation(1)});
  std::vector<std::vector<Replica>> replicas;
  for (const auto& holders : placement) {
    auto& list = replicas.emplace_back();
    for (int rank : holders) list.push_back({RankId(rank)});
  }
  const ModelShape shape{{LayerId(0)}, static_cast<int>(placement.size())};
  return std::make_shared<const View>(View::create(Epoch(epoch), members, shape, replicas).value());
}

// The caller is rank 0. Copyable: exploring copies it at every choice.
class PlanWorld {
 public:
  // ids: [rows, 2], alive as long as the world and its copies.
  PlanWorld(int num_ranks, std::vector<ViewPtr> views, const std::vector<int32_t>& ids, int deaths,
            bool may_split)
      : views_(std::move(views)),
        ranks_(num_ranks),
        live_(num_ranks, Incarnation(1)),
        deaths_(deaths),
        may_split_(may_split),
        accepted_(ids.size(), false) {
    for (int rank = 0; rank < num_ranks; ++rank) fill(rank, 0);
    plan_.start(LayerId(0), {ids.data(), static_cast<int64_t>(ids.size() / 2), 2}, seen_views(),
                live_);
  }

  bool is_over() const { return plan_.is_done() || plan_.is_lost(); }
  const CallPlan& plan() const { return plan_; }

  // What is wrong at the end of a run, or empty.
  std::string verdict(int deaths_at_start) const {
    if (plan_.is_done()) {
      const bool all = std::all_of(accepted_.begin(), accepted_.end(), [](bool b) { return b; });
      return all ? "" : "done without all entries";
    }
    if (!plan_.is_lost()) return "stuck: " + key();
    if (deaths_at_start == 0) return "lost without a death: " + plan_.loss().message();
    return an_expert_is_lost() ? "" : "reported lost, but every expert lives: " + key();
  }

  // All events that can happen now, each as a function that makes it happen.
  std::vector<std::function<void(PlanWorld&)>> events() const;
  // The whole state, for recognising it again.
  std::string key() const;
  std::string failure;  // a rule broken on the way

 private:
  struct Rank {
    size_t seen = 0;  // index of the newest view that it has seen
    bool is_alive = true;
    bool is_known_dead = false;  // the caller was told
    std::set<int> held;
  };
  struct Call {
    int callee;
    bool is_waited_for;
    Epoch known;
    std::vector<int> entries;
    bool operator==(const Call&) const = default;
  };
  struct Answer {
    Call call;
    std::vector<bool> is_refused;
    Epoch newest;
  };

  std::span<const ViewPtr> seen_views() const { return {views_.data(), ranks_[0].seen + 1}; }
  bool names(size_t view, int rank, int expert) const {
    const auto replicas = views_[view]->replicas(LayerId(0), ExpertId(expert));
    return std::any_of(replicas.begin(), replicas.end(),
                       [&](const Replica& r) { return r.rank.value == rank; });
  }
  int num_experts() const { return views_[0]->shape().num_experts; }
  void fill(int rank, size_t view) {
    for (int expert = 0; expert < num_experts(); ++expert) {
      if (names(view, rank, expert)) ranks_[rank].held.insert(expert);
    }
  }
  bool an_expert_is_lost() const {
    for (int expert = 0; expert < num_experts(); ++expert) {
      const auto replicas = seen_views().back()->replicas(LayerId(0), ExpertId(expert));
      if (std::all_of(replicas.begin(), replicas.end(),
                      [&](const Replica& r) { return ranks_[r.rank.value].is_known_dead; })) {
        return true;
      }
    }
    return false;
  }
  int num_waited_for(int rank) const {
    auto counts = [&](const Call& call) { return call.callee == rank && call.is_waited_for; };
    return static_cast<int>(
        std::count_if(calls_.begin(), calls_.end(), counts) +
        std::count_if(answers_.begin(), answers_.end(), [&](auto& a) { return counts(a.call); }));
  }
  // No grace period: an owner reclaims what no view from its own newest on names.
  bool may_reclaim(int rank, int expert) const {
    for (size_t view = ranks_[rank].seen; view <= published_; ++view) {
      if (names(view, rank, expert)) return false;
    }
    return true;
  }

  void post(int rank, int limit) {
    Call call{rank, true, views_[ranks_[0].seen]->epoch(), {}};
    plan_.take(RankId(rank), limit, call.entries);
    calls_.push_back(call);
  }
  void serve(size_t index) {
    const Call call = calls_[index];
    calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(index));
    const Rank& callee = ranks_[call.callee];
    if (!callee.is_alive) return;
    Answer answer{call, {}, views_[callee.seen]->epoch()};
    for (int entry : call.entries)
      answer.is_refused.push_back(!callee.held.contains(plan_.expert(entry).value));
    answers_.push_back(answer);
  }
  void deliver(size_t index) {
    const Answer answer = answers_[index];
    answers_.erase(answers_.begin() + static_cast<std::ptrdiff_t>(index));
    if (!answer.call.is_waited_for) return;  // its identity is not waited for
    for (size_t i = 0; i < answer.is_refused.size(); ++i) {
      const int entry = answer.call.entries[i];
      if (answer.is_refused[i]) {
        plan_.on_refused(RankId(answer.call.callee), entry, answer.newest, answer.call.known);
        refusals_.insert(fmt::format("{} {} {} {}", answer.call.callee, plan_.expert(entry).value,
                                     answer.newest.value, answer.call.known.value));
      } else {
        if (accepted_[entry]) failure = fmt::format("entry {} accepted twice", entry);
        accepted_[entry] = true;
        plan_.on_answer(entry);
      }
    }
  }
  void publish() {
    ++published_;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].is_alive) fill(static_cast<int>(rank), published_);
    }
  }
  void see(int rank) {
    ++ranks_[rank].seen;
    if (rank == 0) plan_.on_view(seen_views(), live_);
  }
  void tell(int rank) {
    ranks_[rank].is_known_dead = true;
    live_[rank] = Incarnation();
    for (Call& call : calls_) call.is_waited_for &= call.callee != rank;
    for (Answer& answer : answers_) answer.call.is_waited_for &= answer.call.callee != rank;
    plan_.on_lost(RankId(rank));
  }

  std::vector<ViewPtr> views_;
  size_t published_ = 0;  // index of the newest
  std::vector<Rank> ranks_;
  std::vector<Incarnation> live_;
  int deaths_;
  bool may_split_;
  CallPlan plan_{RankId(0)};
  std::vector<Call> calls_;
  std::vector<Answer> answers_;
  std::vector<bool> accepted_;
  std::set<std::string> refusals_;
};

inline std::vector<std::function<void(PlanWorld&)>> PlanWorld::events() const {
  std::vector<std::function<void(PlanWorld&)>> events;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    const Rank& r = ranks_[rank];
    if (plan_.has_queued(RankId(rank)) && num_waited_for(rank) < 2) {
      events.push_back([=](PlanWorld& w) { w.post(rank, 1000); });
      if (may_split_) events.push_back([=](PlanWorld& w) { w.post(rank, 1); });
    }
    if (r.is_known_dead) continue;
    if (!r.is_alive) {
      events.push_back([=](PlanWorld& w) { w.tell(rank); });
      continue;
    }
    if (r.seen < published_) events.push_back([=](PlanWorld& w) { w.see(rank); });
    for (int expert : r.held) {
      if (may_reclaim(rank, expert))
        events.push_back([=](PlanWorld& w) { w.ranks_[rank].held.erase(expert); });
    }
    if (rank > 0 && deaths_ > 0) {
      events.push_back([=](PlanWorld& w) {
        w.ranks_[rank].is_alive = false;
        --w.deaths_;
      });
    }
  }
  for (size_t i = 0; i < calls_.size(); ++i) events.push_back([=](PlanWorld& w) { w.serve(i); });
  for (size_t i = 0; i < answers_.size(); ++i)
    events.push_back([=](PlanWorld& w) { w.deliver(i); });
  if (published_ + 1 < views_.size()) events.push_back([](PlanWorld& w) { w.publish(); });
  return events;
}

inline std::string PlanWorld::key() const {
  std::string text = fmt::format("view {} deaths {} accepted {}", published_, deaths_, accepted_);
  for (const Rank& r : ranks_)
    text += fmt::format(" | {} {} {} {}", r.seen, r.is_alive, r.is_known_dead, r.held);
  auto describe = [](const Call& c) {
    return fmt::format("{} {} {} {}", c.callee, c.is_waited_for, c.known.value, c.entries);
  };
  std::multiset<std::string> under_way;
  for (const Call& c : calls_) under_way.insert("call " + describe(c));
  for (const Answer& a : answers_) {
    under_way.insert(
        fmt::format("answer {} {} {}", describe(a.call), a.is_refused, a.newest.value));
  }
  text += fmt::format(" | {} | {} | queued", under_way, refusals_);
  CallPlan copy = plan_;  // taking shows what is queued
  std::vector<int> entries;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    copy.take(RankId(static_cast<int>(rank)), 1000, entries);
    text += fmt::format(" {}", entries);
  }
  return text;
}

}  // namespace fasteep
