#pragma once
// What a starting instance tells its user: a line for each phase, then a summary.
#include <map>
#include <string>

#include "engine/controller.h"

namespace fasteep {

// Threads: the event loop's.
class StartDisplay {
 public:
  // A line when a phase has ended on all `num_ranks` ranks, and one on the way every few seconds.
  void on_progress(const StartProgress& progress, int num_ranks);

 private:
  struct Phase {
    std::map<RankId, StartProgress> ranks;
    double last_line_s = 0;
    bool ended = false;
  };
  std::map<std::string, Phase> phases_;
};

// Ranks, slots, replicas, KV tokens and bytes by tag.
std::string start_summary(const Controller& controller);

}  // namespace fasteep
