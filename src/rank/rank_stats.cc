#include "rank/rank_stats.h"

namespace fasteep {

void fill(const SchedulerStats& scheduler, const ExchangeStats& exchange, api::Stats& message) {
  message.set_running(scheduler.running);
  message.set_waiting(scheduler.waiting);
  message.set_blocks_used(scheduler.blocks_used);
  message.set_blocks_cached(scheduler.blocks_cached);
  message.set_blocks_free(scheduler.blocks_free);
  message.set_preemptions(scheduler.preemptions);
  message.set_prefix_hit_tokens(scheduler.prefix_hit_tokens);
  message.set_prefix_query_tokens(scheduler.prefix_query_tokens);
  message.set_steps(scheduler.steps);
  message.set_prompt_tokens(scheduler.prompt_tokens);
  message.set_generated_tokens(scheduler.generated_tokens);
  message.set_calls_sent(exchange.calls_sent);
  message.set_calls_served(exchange.calls_served);
  message.set_rows_sent(exchange.rows_sent);
  message.set_rows_served(exchange.rows_served);
  message.set_refusals(exchange.refusals);
  message.set_reasked_rows(exchange.reasked_rows);
  message.set_late_answers_dropped(exchange.late_answers_dropped);
  message.set_gathers(exchange.gathers);
  message.set_gather_timeouts(exchange.gather_timeouts);
  message.set_sleeps(exchange.sleeps);
  message.set_layer_steps(exchange.layer_steps);
}

}  // namespace fasteep
