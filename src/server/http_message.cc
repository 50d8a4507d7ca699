#include "server/http_message.h"

namespace fasteep {

std::string_view path_of(const http::request_header<>& header) {
  const std::string_view target(header.target().data(), header.target().size());
  return target.substr(0, target.find('?'));
}

HttpReply error_reply(const Error& error) {
  const ErrorStatus status = status_of(error.code());
  HttpReply reply{status.http, error_body(error)};
  if (status.retry_after_s > 0)
    reply.headers.emplace_back("Retry-After", std::to_string(status.retry_after_s));
  return reply;
}

HttpReply error_reply(int status, std::string_view message) {
  HttpReply reply{status, error_body(status, message)};
  if (status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

}  // namespace fasteep
