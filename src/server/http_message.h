#pragma once
// What routes see of HTTP.
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/error_body.h"

namespace fasteep {

namespace http = boost::beast::http;

using HttpRequest = http::request<http::string_body>;

struct HttpReply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
};

// The path of a request's target, without the query.
std::string_view path_of(const http::request_header<>& header);

HttpReply error_reply(const Error& error);
HttpReply error_reply(int status, std::string_view message);

}  // namespace fasteep
