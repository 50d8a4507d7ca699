#include "server/error_body.h"

#include "server/json_limits.h"

namespace fasteep {
namespace {

std::string envelope(std::string_view message, std::string_view type, std::string_view param,
                     int code) {
  const OrderedJson field = param.empty() ? OrderedJson() : OrderedJson(param);
  return to_text(
      {{"error", {{"message", message}, {"type", type}, {"param", field}, {"code", code}}}});
}

}  // namespace

ErrorStatus status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return {400, "BadRequestError"};
    case ErrorCode::kNotFound:
      return {404, "NotFoundError"};
    case ErrorCode::kExhausted:
      return {429, "TooManyRequestsError", 1};
    case ErrorCode::kPeerLost:
      return {500, "rank_lost"};
    case ErrorCode::kTimeout:
      return {504, "TimeoutError"};
    case ErrorCode::kStaleEpoch:
      return {503, "ServiceUnavailableError", 1};
    case ErrorCode::kCancelled:
      return {499, "RequestCancelledError"};
    case ErrorCode::kUnavailable:
      return {503, "ServiceUnavailableError", 1};
    case ErrorCode::kBusy:
      return {409, "ConflictError"};
    case ErrorCode::kIo:
      return {500, "InternalServerError"};
  }
  return {500, "InternalServerError"};
}

std::string_view error_type(int http_status) {
  switch (http_status) {
    case 400:
      return "BadRequestError";
    case 401:
      return "AuthenticationError";
    case 404:
      return "NotFoundError";
    case 405:
      return "MethodNotAllowedError";
    case 408:
      return "TimeoutError";
    case 413:
      return "RequestTooLargeError";
    case 431:
      return "RequestTooLargeError";
    case 503:
      return "ServiceUnavailableError";
    default:
      return "InternalServerError";
  }
}

std::string error_body(const Error& error) {
  const ErrorStatus status = status_of(error.code());
  return envelope(error.message(), status.type, error.field(), status.http);
}

std::string error_body(int http_status, std::string_view message, std::string_view param) {
  return envelope(message, error_type(http_status), param, http_status);
}

}  // namespace fasteep
