#pragma once
// Which path is answered by whom, and who may ask.
#include <functional>
#include <string>
#include <vector>

#include "server/http_session.h"

namespace fasteep {

enum class Access { kOpen, kWithKey };  // kWithKey: needs the API key, if the server has one

// Threads: the server's, after the routes have been added.
class Router final : public HttpHandler {
 public:
  using Coroutine =
      std::function<boost::asio::awaitable<void>(HttpRequest& request, HttpSession& session)>;
  using Function = std::function<HttpReply(const HttpRequest& request)>;

  explicit Router(std::vector<std::string> api_keys) : api_keys_(std::move(api_keys)) {}

  // GET routes answer HEAD as well.
  void add(http::verb verb, std::string path, Access access, Coroutine handler);
  void add(http::verb verb, std::string path, Access access, Function handler);

  // 401, 404 and 405, before the body is read.
  std::optional<HttpReply> refuse(const http::request_header<>& header) const override;
  // Also answers OPTIONS of every path.
  boost::asio::awaitable<void> handle(HttpRequest& request, HttpSession& session) override;

 private:
  struct Route {
    http::verb verb;
    std::string path;
    Access access;
    Coroutine handler;
  };
  const Route* find(std::string_view path, http::verb verb) const;
  std::string methods_of(std::string_view path) const;  // "GET, HEAD"; empty: no such path
  bool is_open(std::string_view path) const;
  bool has_key(const http::request_header<>& header) const;

  std::vector<Route> routes_;
  std::vector<std::string> api_keys_;
};

}  // namespace fasteep
