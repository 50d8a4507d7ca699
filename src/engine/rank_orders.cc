#include "engine/rank_orders.h"

#include "rank/messages.h"

namespace fasteep {
namespace {

bool copies_or_loads(const api::Order& order) {
  return order.has_fill() || order.has_fetch_kv() || order.has_save_kv() || order.has_wake();
}

std::string_view name_of(const api::Order& order) {
  switch (order.body_case()) {
    case api::Order::kWake:
      return "wake";
    case api::Order::kSetKvBlocks:
      return "change its KV blocks";
    case api::Order::kFill:
      return "fill its slots";
    case api::Order::kCanary:
      return "run the canary";
    case api::Order::kDrop:
      return "drop experts";
    case api::Order::kSleep:
      return "sleep";
    case api::Order::kShareKv:
    case api::Order::kFetchKv:
    case api::Order::kHandOver:
    case api::Order::kEndHandOver:
    case api::Order::kDropKv:
    case api::Order::kSaveKv:
      return "move a request";
    case api::Order::kCancelOrder:
      return "cancel an order";
    case api::Order::BODY_NOT_SET:
      break;
  }
  return "do nothing";
}

}  // namespace

RankOrders::RankOrders(boost::asio::io_context& loop, Ports ports, OrderDeadlines deadlines)
    : loop_(loop), ports_(std::move(ports)), deadlines_(deadlines) {}

RankOrders::~RankOrders() = default;

uint64_t RankOrders::give(RankId rank, api::Order order, std::vector<Descriptor> descriptors,
                          OnDone done) {
  const uint64_t ticket = ++last_ticket_;
  order.set_ticket(ticket);
  api::ToRank message;
  *message.mutable_order() = order;
  const bool shows_progress = copies_or_loads(order);
  auto [added, is_new] =
      orders_.emplace(ticket, Pending{rank, std::move(order), std::move(done), shows_progress,
                                      boost::asio::steady_timer(loop_)});
  arm(ticket, added->second);
  ports_.send(rank, message, std::move(descriptors));
  return ticket;
}

void RankOrders::cancel(RankId rank, uint64_t ticket) {
  if (!find(rank, ticket)) return;
  api::Order order;
  order.mutable_cancel_order()->set_cancelled(ticket);
  give(rank, std::move(order), {}, nullptr);
}

void RankOrders::arm(uint64_t ticket, Pending& pending) {
  pending.deadline.expires_after(pending.shows_progress ? deadlines_.without_progress
                                                        : deadlines_.usual);
  pending.deadline.async_wait([this, ticket, alive = std::weak_ptr(alive_)](const auto& failed) {
    if (!failed && !alive.expired()) on_deadline(ticket);
  });
}

void RankOrders::on_progress(RankId rank) {
  for (auto& [ticket, pending] : orders_) {
    if (pending.rank == rank && pending.shows_progress) arm(ticket, pending);
  }
}

void RankOrders::on_deadline(uint64_t ticket) {
  const auto found = orders_.find(ticket);
  if (found == orders_.end()) return;
  const RankId rank = found->second.rank;
  const Error error = make_error(
      ErrorCode::kTimeout, "rank {} did not {} within {:.0f} s", rank, name_of(found->second.order),
      seconds(found->second.shows_progress ? deadlines_.without_progress : deadlines_.usual));
  if (!found->second.order.has_cancel_order()) cancel(rank, ticket);
  answer(ticket, error);
  ports_.on_overdue(rank, error);
}

const api::Order* RankOrders::find(RankId rank, uint64_t ticket) const {
  const auto found = orders_.find(ticket);
  return found == orders_.end() || found->second.rank != rank ? nullptr : &found->second.order;
}

void RankOrders::on_done(RankId rank, const api::Done& done) {
  if (!find(rank, done.ticket())) return;
  if (done.has_error()) return answer(done.ticket(), to_error(done.error()));
  answer(done.ticket(), done);
}

void RankOrders::on_lost(RankId rank, const Error& error) {
  std::vector<uint64_t> tickets;
  for (const auto& [ticket, pending] : orders_) {
    if (pending.rank == rank) tickets.push_back(ticket);
  }
  for (const uint64_t ticket : tickets) answer(ticket, error);
}

void RankOrders::answer(uint64_t ticket, const Result<api::Done>& result) {
  auto order = orders_.extract(ticket);
  if (order && order.mapped().done) order.mapped().done(result);
}

}  // namespace fasteep
