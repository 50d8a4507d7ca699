#pragma once
// The counters of a rank as a message.
#include "exchange/exchange.h"
#include "rank/api.pb.h"
#include "scheduler/scheduler.h"

namespace fasteep {

void fill(const SchedulerStats& scheduler, const ExchangeStats& exchange, api::Stats& message);

}  // namespace fasteep
