#pragma once
// The ranks of an instance as one thing that starts, loses members and ends; the only publisher of
// views.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/instance_plan.h"
#include "engine/rank_supervisor.h"

namespace fasteep {

struct StartProgress {
  std::string phase;  // "replicated weights", "experts", "ready"
  RankId rank;
  int64_t done = 0, total = 0;  // bytes
  double seconds = 0;           // since the start
};

// Threads: the io_context's.
class RankGroup {
 public:
  struct Events {
    std::function<void(const StartProgress&)> on_progress;
    std::function<void(Result<void>)> on_started;  // once
    std::function<void(RankId, const api::Updates&)> on_updates;
    std::function<void(RankId, const api::Stats&)> on_stats;
    // An active rank answers nothing any more: give it no more requests.
    std::function<void(RankId)> on_unreachable;
    // It is gone; its requests can be ended with this (kPeerLost).
    std::function<void(RankId, const Error&)> on_lost;
    std::function<void()> on_all_gone;  // after stop(), or when the last one is lost
  };
  RankGroup(boost::asio::io_context& loop, InstancePlan plan, std::string program,
            const Clock& clock, Events events);

  void start();
  // Tells all ranks to end, and kills those that still run after a few seconds.
  void stop();

  void send(RankId rank, const api::ToRank& message) { supervisor_.send(rank, message); }
  void ask_for_stats();
  void declare_broken(RankId rank, const Error& error) { supervisor_.declare_broken(rank, error); }

  const InstancePlan& plan() const { return plan_; }
  bool is_serving() const { return phase_ == Phase::kServing && lost_experts_.empty(); }
  bool has_lost_experts() const { return !lost_experts_.empty(); }
  std::string not_ready_reason() const;
  int num_lost() const { return num_lost_; }
  size_t num_processes() const { return supervisor_.num_processes(); }
  Epoch epoch() const { return view_->epoch(); }
  std::vector<RankId> active_ranks() const;
  int64_t kv_tokens(RankId rank) const;
  const std::map<RankId, RankStatus>& statuses() const { return statuses_; }
  RankStatus& status(RankId rank) { return statuses_.at(rank); }

 private:
  enum class Phase { kIdle, kLoading, kIntroducing, kServing, kFailed, kStopping };
  struct Introduction {  // what peers are given
    Descriptor window;   // read-only
    Descriptor doorbell;
  };
  Result<void> launch(const RankSettings& settings);
  void on_message(RankId rank, const api::FromRank& message);
  void on_ready(RankId rank, const api::Ready& ready);
  void introduce_all();
  void introduce(RankId rank, RankId peer);
  void publish();
  void on_adopted(RankId rank, Epoch epoch);
  void on_unreachable(RankId rank);
  void on_gone(RankId rank, const std::string& reason);
  void fail_start(const Error& error);
  bool all_ranks_are(const char* state) const;
  void disconnect(RankId rank);
  void leave_view(RankId rank);
  void later(std::function<void()> function);  // unless the group is gone by then

  boost::asio::io_context& loop_;
  InstancePlan plan_;
  const Clock& clock_;
  Events events_;
  Phase phase_ = Phase::kIdle;
  TimePoint started_;
  ViewPtr view_;  // the newest
  std::map<RankId, RankStatus> statuses_;
  std::map<RankId, Introduction> introductions_;
  std::string lost_experts_;  // without a live replica, in words
  std::string lost_how_;      // "rank 2 died (signal 9)"
  int num_lost_ = 0;
  boost::asio::steady_timer stop_deadline_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // pending handlers hold weak pointers
  RankSupervisor supervisor_;
};

}  // namespace fasteep
