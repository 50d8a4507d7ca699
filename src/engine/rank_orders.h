#pragma once
// Orders to ranks that are not answered yet: each is answered once, by the rank's Done, by its loss
// or by a deadline.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "rank/api.pb.h"
#include "transport/descriptor.h"

namespace fasteep {

struct OrderDeadlines {
  Duration usual = std::chrono::seconds(30);
  // Of orders that copy or load, whose rank says how far it is: since it last said so.
  Duration without_progress = std::chrono::seconds(60);
};

// Threads: the io_context's.
class RankOrders {
 public:
  // Called from the loop, never from inside a member that gives or cancels. Errors: the rank's own,
  // kPeerLost, kTimeout.
  using OnDone = std::function<void(const Result<api::Done>&)>;
  struct Ports {
    std::function<void(RankId, const api::ToRank&, std::vector<Descriptor>)> send;
    // An order of it took too long; it has been told to cancel it, and its answer comes to nobody.
    std::function<void(RankId, const Error&)> on_overdue;
  };
  RankOrders(boost::asio::io_context& loop, Ports ports, OrderDeadlines deadlines = {});
  ~RankOrders();  // what is not answered never is
  RankOrders(const RankOrders&) = delete;

  // Returns the order's ticket. The rank lives.
  uint64_t give(RankId rank, api::Order order, std::vector<Descriptor> descriptors, OnDone done);
  // The order is answered all the same: as kCancelled if that came in time.
  void cancel(RankId rank, uint64_t ticket);

  void on_progress(RankId rank);
  // nullptr: unknown, or answered already.
  const api::Order* find(RankId rank, uint64_t ticket) const;
  void on_done(RankId rank, const api::Done& done);
  void on_lost(RankId rank, const Error& error);  // answers all its orders so
  size_t size() const { return orders_.size(); }

 private:
  struct Pending {
    RankId rank;
    api::Order order;
    OnDone done;
    bool shows_progress = false;
    boost::asio::steady_timer deadline;
  };
  void arm(uint64_t ticket, Pending& pending);
  void on_deadline(uint64_t ticket);
  void answer(uint64_t ticket, const Result<api::Done>& result);

  boost::asio::io_context& loop_;
  Ports ports_;
  OrderDeadlines deadlines_;
  uint64_t last_ticket_ = 0;
  std::map<uint64_t, Pending> orders_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // pending handlers hold weak pointers
};

}  // namespace fasteep
