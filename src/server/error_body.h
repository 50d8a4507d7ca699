#pragma once
// Errors as HTTP: the one place where codes become statuses, and vLLM's envelope around them.
#include <string>
#include <string_view>

#include "base/result.h"

namespace fasteep {

struct ErrorStatus {
  int http;               // 400, 429, ...
  std::string_view type;  // vLLM's words where it has one
  int retry_after_s = 0;  // 0: no such header
};

ErrorStatus status_of(ErrorCode code);
// Of errors that HTTP itself knows (401, 405, 413, ...).
std::string_view error_type(int http_status);

// {"error": {"message", "type", "param", "code"}}
std::string error_body(const Error& error);
std::string error_body(int http_status, std::string_view message, std::string_view param = {});

}  // namespace fasteep
