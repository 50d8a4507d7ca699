#pragma once
// What the controller knows of the experts that each rank holds: where they lie and what their
// bytes sum up to. Learned from the ranks' answers; the ranks' own tables are the truth.
#include <map>
#include <optional>

#include "base/ids.h"
#include "base/result.h"
#include "elastic/resize.h"
#include "rank/api.pb.h"

namespace fasteep {

struct HeldExpert {
  int slot = 0;           // of that rank
  uint64_t checksum = 0;  // XXH3 of the slot's bytes
};

// Pure. Threads: one.
class SlotTables {
 public:
  // The answer to `order`, which succeeded.
  void on_done(RankId rank, const api::Order& order, const api::Done& done);
  void forget(RankId rank);  // it holds nothing any more

  std::optional<HeldExpert> find(RankId rank, ExpertKey key) const;
  size_t num_held(RankId rank) const;
  uint64_t replicated_checksum() const { return replicated_checksum_; }  // 0: unknown

 private:
  std::map<RankId, std::map<ExpertKey, HeldExpert>> held_;
  uint64_t replicated_checksum_ = 0;  // the same on all ranks
};

// The order for a kFill command; `before` is the plan's. Error kInvalidInput: a source does not
// hold what it should give.
Result<api::Order> fill_order(const ResizeCommand& command, const View* before,
                              const SlotTables& tables);
api::Order drop_order(const std::vector<ExpertKey>& experts);

}  // namespace fasteep
