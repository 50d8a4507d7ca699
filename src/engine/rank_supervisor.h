#pragma once
// The rank processes: starts them, talks to them, hears of their end and reaps them. No rank
// outlives it, however it ends.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/rank_link.h"
#include "placement/view.h"

namespace fasteep {

// Threads: the io_context's. Processes are started on the thread that calls launch(), and the
// kernel kills them when that thread ends.
class RankSupervisor {
 public:
  struct Events {
    std::function<void(RankId, const api::FromRank&)> on_message;
    // It answers nothing any more; it has been killed to be sure. Unless it was told to stop.
    std::function<void(RankId)> on_unreachable;
    // Its process is reaped. reason: "died (signal 9)", "failed: its own last words"; empty if it
    // was told to stop.
    std::function<void(RankId, const std::string& reason)> on_gone;
  };
  // program: run as `PROGRAM rank --control-fd N`.
  RankSupervisor(boost::asio::io_context& loop, std::string program, Events events);
  ~RankSupervisor();  // kills what is left, and reaps it; no event comes any more
  RankSupervisor(const RankSupervisor&) = delete;

  Result<void> launch(const Member& member);
  // Messages to unreachable ranks are dropped.
  void send(RankId rank, const api::ToRank& message, std::vector<Descriptor> descriptors = {});
  void stop(RankId rank);  // by message; its end is expected from now on
  void kill(RankId rank);  // its end is expected from now on
  void declare_broken(RankId rank, const Error& error);  // it broke the protocol: killed

  size_t num_processes() const { return processes_.size(); }  // not reaped yet
  int pid(RankId rank) const;                                 // 0: none
  // Why it ends, in its own words or about its messages; empty: it has said nothing.
  std::string last_words(RankId rank) const;

 private:
  struct Process;
  void watch(const std::shared_ptr<Process>& process);
  void on_message(Process& process, const api::FromRank& message);
  void on_closed(Process& process, const Error& error);
  void on_exit(Process& process);
  void give_up_waiting(const std::shared_ptr<Process>& process);
  void make_unreachable(Process& process);
  Process* find(RankId rank) const;

  boost::asio::io_context& loop_;
  std::string program_;
  Events events_;
  std::map<RankId, std::shared_ptr<Process>> processes_;  // shared with pending handlers
};

}  // namespace fasteep
