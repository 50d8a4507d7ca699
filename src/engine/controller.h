#pragma once
// The engine: accepts requests, gives each to a rank, delivers each token once and in order, and
// ends every accepted request with exactly one event.
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "engine/engine_metrics.h"
#include "engine/rank_group.h"
#include "engine/request_journal.h"
#include "engine/request_router.h"

namespace fasteep {

// Threads: all members on the io_context's thread, which must be one, and the same that calls
// start() (ranks are killed by the kernel when it ends).
class Controller final : public Engine {
 public:
  // Reads the model's config, checks its tensors and the memory; starts nothing yet.
  // Errors: kInvalidInput, kExhausted (memory), kIo.
  static Result<std::unique_ptr<Controller>> create(boost::asio::io_context& loop,
                                                    const EngineOptions& options);
  ~Controller() override;  // kills and reaps what still runs; streams hear nothing more

  // Starts the ranks. `done` is called once, when requests can be submitted or with what failed
  // (then all ranks are killed).
  using Progress = std::function<void(const StartProgress&)>;
  void start(Progress progress, std::function<void(Result<void>)> done);

  Result<RequestId> submit(GenerateRequest request, Stream stream) override;
  void cancel(RequestId id) override;
  EngineStatus status() const override;
  std::string metrics_text() const override;

  // Refuses new requests, lets the accepted ones finish, then ends the ranks; `done` once they are
  // reaped. stop() in the meantime hurries it.
  void drain(std::function<void()> done);
  // Ends all requests now (kUnavailable), then the ranks; `done` once they are reaped.
  void stop(std::function<void()> done);

  // Called once when experts are lost and the accepted requests have ended: nothing can be served.
  void on_unserviceable(std::function<void()> callback);
  // Of the program: 0, or 3 once a rank was lost while serving.
  int exit_status() const { return group_->num_lost() > 0 ? 3 : 0; }

  const InstancePlan& plan() const { return group_->plan(); }

 private:
  Controller(boost::asio::io_context& loop, const EngineOptions& options, InstancePlan plan);
  RankGroup::Events group_events();

  Result<void> check_submittable(const GenerateRequest& request) const;
  api::ToRank submit_message(const JournalEntry& entry) const;
  void on_started(Result<void> started);
  void on_stats(RankId rank, const api::Stats& stats);
  void on_updates(RankId rank, const api::Updates& updates);
  Result<void> on_update(RankId rank, const api::Update& update);
  void deliver(RequestId id, const StreamEvent& event);
  void end(RequestId id, StreamEvent last);
  JournalEntry take(RequestId id);
  void end_with_error(RequestId id, const Error& error);
  void on_lost(RankId rank, const Error& error);
  void on_all_gone();
  void go_on_ending();
  // Runs `function` from the event loop, unless the controller is gone by then.
  void later(std::function<void()> function);
  int block_tokens() const { return plan().ranks.front().scheduler.block_tokens; }

  boost::asio::io_context& loop_;
  RequestJournal journal_;
  RequestRouter router_;
  mutable EngineMetrics metrics_;
  Progress progress_;
  std::function<void(Result<void>)> on_started_;
  std::function<void()> on_unserviceable_;
  std::vector<std::function<void()>> on_ended_;
  bool is_draining_ = false;
  bool is_ended_ = false;                                   // no process is left and none will come
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // pending handlers hold weak pointers
  std::unique_ptr<RankGroup> group_;  // last: it must not call into what is destroyed
};

}  // namespace fasteep
