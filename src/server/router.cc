#include "server/router.h"

#include <algorithm>

namespace fasteep {
namespace {

// Takes as long for a wrong key as for a right one.
bool is_equal_secret(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i] ^ key[i % key.size()]);
  return difference == 0;
}

// What browsers ask before they send a request from another site's page.
HttpReply preflight_reply(const HttpRequest& request, const std::string& methods) {
  const std::string wanted(request[http::field::access_control_request_headers]);
  HttpReply reply;
  reply.headers = {{"Access-Control-Allow-Methods", methods + ", OPTIONS"},
                   {"Access-Control-Allow-Headers", wanted.empty() ? "*" : wanted},
                   {"Access-Control-Max-Age", "600"},
                   {"Allow", methods + ", OPTIONS"}};
  return reply;
}

}  // namespace

void Router::add(http::verb verb, std::string path, Access access, Coroutine handler) {
  routes_.push_back({verb, std::move(path), access, std::move(handler)});
}

void Router::add(http::verb verb, std::string path, Access access, Function handler) {
  add(verb, std::move(path), access,
      Coroutine([handler = std::move(handler)](HttpRequest& request, HttpSession& session) {
        return session.send(handler(request));
      }));
}

const Router::Route* Router::find(std::string_view path, http::verb verb) const {
  const http::verb wanted = verb == http::verb::head ? http::verb::get : verb;
  const auto found = std::find_if(routes_.begin(), routes_.end(), [&](const Route& route) {
    return route.path == path && route.verb == wanted;
  });
  return found == routes_.end() ? nullptr : &*found;
}

std::string Router::methods_of(std::string_view path) const {
  std::string methods;
  for (const Route& route : routes_) {
    if (route.path != path) continue;
    if (!methods.empty()) methods += ", ";
    methods += std::string(http::to_string(route.verb));
    if (route.verb == http::verb::get) methods += ", HEAD";
  }
  return methods;
}

bool Router::is_open(std::string_view path) const {
  return std::any_of(routes_.begin(), routes_.end(), [&](const Route& route) {
    return route.path == path && route.access == Access::kOpen;
  });
}

bool Router::has_key(const http::request_header<>& header) const {
  const std::string_view field(header[http::field::authorization]);
  constexpr std::string_view kScheme = "Bearer ";
  if (!field.starts_with(kScheme)) return false;
  const std::string_view given = field.substr(kScheme.size());
  return std::any_of(api_keys_.begin(), api_keys_.end(),
                     [&](const std::string& key) { return is_equal_secret(given, key); });
}

std::optional<HttpReply> Router::refuse(const http::request_header<>& header) const {
  const std::string_view path = path_of(header);
  const bool is_preflight = header.method() == http::verb::options;
  if (!api_keys_.empty() && !is_preflight && !is_open(path) && !has_key(header)) {
    HttpReply reply = error_reply(401, "Unauthorized: send `Authorization: Bearer KEY`");
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  const std::string methods = methods_of(path);
  if (methods.empty()) return error_reply(404, fmt::format("no such path: {}", path));
  if (is_preflight || find(path, header.method())) return std::nullopt;
  HttpReply reply = error_reply(405, fmt::format("{} takes {}, not {}", path, methods,
                                                 std::string_view(header.method_string())));
  reply.headers.emplace_back("Allow", methods + ", OPTIONS");
  return reply;
}

boost::asio::awaitable<void> Router::handle(HttpRequest& request, HttpSession& session) {
  const std::string_view path = path_of(request);
  if (request.method() == http::verb::options) {
    co_await session.send(preflight_reply(request, methods_of(path)));
    co_return;
  }
  const Route* route = find(path, request.method());
  CHECK(route != nullptr, "{} was not refused", path);
  co_await route->handler(request, session);
}

}  // namespace fasteep
