#include "base/result.h"

#include <system_error>

namespace fasteep {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return "invalid_input";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kExhausted:
      return "exhausted";
    case ErrorCode::kPeerLost:
      return "peer_lost";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kStaleEpoch:
      return "stale_epoch";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kBusy:
      return "busy";
    case ErrorCode::kIo:
      return "io";
  }
  return "unknown";
}

Error io_error(std::string_view what, int errno_value) {
  return Error(ErrorCode::kIo,
               fmt::format("{}: {}", what, std::generic_category().message(errno_value)));
}

}  // namespace fasteep
