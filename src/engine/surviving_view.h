#pragma once
// Pure: what is left of a view when a rank is gone.
#include <string>

#include "placement/view.h"

namespace fasteep {

// The experts whose only replicas are on `rank`, in words: "experts 3, 17 of layer 5 (of 40 in
// all)"; empty when every expert has another.
std::string experts_only_on(const View& view, RankId rank);

// The view without the rank, as `epoch`. Every expert has a replica elsewhere.
Result<View> without_rank(const View& view, RankId rank, Epoch epoch);

}  // namespace fasteep
