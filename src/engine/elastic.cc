#include "engine/elastic.h"

namespace fasteep {

std::string_view to_string(KvMove method) {
  switch (method) {
    case KvMove::kAuto:
      return "auto";
    case KvMove::kFinish:
      return "finish";
    case KvMove::kMigrate:
      return "migrate";
    case KvMove::kSwap:
      return "swap";
    case KvMove::kRecompute:
      return "recompute";
  }
  return "auto";
}

std::string_view to_string(OperationOutcome outcome) {
  switch (outcome) {
    case OperationOutcome::kRunning:
      return "running";
    case OperationOutcome::kSucceeded:
      return "succeeded";
    case OperationOutcome::kRolledBack:
      return "rolled_back";
  }
  return "running";
}

}  // namespace fasteep
