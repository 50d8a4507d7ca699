// HTTP itself: statuses, keep-alive, bodies, time limits.
#include <gtest/gtest.h>

#include "server/server_test_support.h"

namespace fasteep {
namespace {

using namespace std::chrono_literals;
using testing::Answer;
using testing::Client;

class Http : public testing::ServerTest {};

TEST_F(Http, StatusPagesAnswer) {
  start();
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/version").json()["version"], FASTEEP_VERSION);
  EXPECT_NE(get("/").body.find("/v1/chat/completions"), std::string::npos);
  EXPECT_EQ(get("/health?probe=1").status, 200);
}

TEST_F(Http, HealthSaysWhyTheEngineIsNotReady) {
  engine.not_ready_reason = "rank 2 died";
  start();
  const Answer answer = get("/health");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.json()["error"]["message"], "rank 2 died");
}

TEST_F(Http, ModelsListsEachName) {
  start();
  const OrderedJson models = get("/v1/models").json();
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][1]["id"], "alias");
  EXPECT_EQ(models["data"][0]["max_model_len"], 200);
}

TEST_F(Http, HeadIsGetWithoutABody) {
  start();
  Client client(server->port());
  client.request("HEAD", "/version");
  const Answer answer = client.answer(true);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-length"), std::to_string(get("/version").body.size()));
  EXPECT_EQ(client.get("/health").status, 200) << "the connection goes on behind it";
}

TEST_F(Http, UnknownPathsAndMethodsAreRefused) {
  start();
  EXPECT_EQ(get("/nowhere").status, 404);
  const Answer wrong_method = get("/v1/completions");
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(post("/health", "{}").status, 405);
}

TEST_F(Http, PreflightAllowsBrowsers) {
  start();
  Client client(server->port());
  client.request("OPTIONS", "/v1/completions", "",
                 "Origin: http://x\r\nAccess-Control-Request-Headers: authorization\r\n");
  const Answer answer = client.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "*");
  EXPECT_EQ(answer.headers.at("access-control-allow-headers"), "authorization");
}

TEST_F(Http, TheKeyIsAskedForExceptByStatusPages) {
  options.api_key = "first, second";
  start();
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/metrics").status, 200);
  EXPECT_EQ(get("/v1/models").status, 401);
  EXPECT_EQ(post("/v1/completions", R"({"prompt": "x"})", "Authorization: Bearer wrong\r\n").status,
            401);
  EXPECT_EQ(
      post("/v1/completions", R"({"prompt": "x"})", "Authorization: Bearer secondx\r\n").status,
      401);
  EXPECT_EQ(
      post("/v1/completions", R"({"prompt": "x"})", "Authorization: Bearer second\r\n").status,
      200);
}

TEST_F(Http, RequestsFollowEachOtherAndMayBePipelined) {
  start();
  Client client(server->port());
  client.request("POST", "/v1/completions", R"({"prompt": "x"})");
  client.request("GET", "/health");
  client.request("GET", "/version");
  EXPECT_EQ(client.answer().json()["object"], "text_completion");
  EXPECT_EQ(client.answer().status, 200);
  EXPECT_EQ(client.answer().json()["version"], FASTEEP_VERSION);
}

TEST_F(Http, ConnectionCloseIsObeyed) {
  start();
  Client client(server->port());
  client.request("GET", "/health", "", "Connection: close\r\n");
  EXPECT_EQ(client.answer().headers.at("connection"), "close");
  EXPECT_TRUE(client.is_at_end());
}

TEST_F(Http, OldHttpIsAnsweredAndClosed) {
  start();
  Client client(server->port());
  client.send("GET /version HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.answer().status, 200);
  EXPECT_TRUE(client.is_at_end());
}

TEST_F(Http, RequestIdIsEchoed) {
  start();
  EXPECT_EQ(post("/v1/completions", "{}", "X-Request-Id: abc\r\n").headers.at("x-request-id"),
            "abc");
}

TEST_F(Http, ChunkedBodiesAreRead) {
  start();
  Client client(server->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("9\r\n{\"prompt\"\r\n");
  client.send("6\r\n: \"x\"}\r\n0\r\n\r\n");
  EXPECT_EQ(client.answer().status, 200);
}

TEST_F(Http, ABodyIsAskedForWhenTheClientWaits) {
  start();
  Client client(server->port());
  const std::string body = R"({"prompt": "x"})";
  client.send(
      fmt::format("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n"
                  "Expect: 100-continue\r\n\r\n",
                  body.size()));
  EXPECT_EQ(client.answer(true).status, 100);
  client.send(body);
  EXPECT_EQ(client.answer().status, 200);
}

TEST_F(Http, TooLargeBodiesGet413EvenWhileTheyAreSent) {
  options.max_body_bytes = 1 << 20;
  start();
  const Answer answer = post("/v1/completions", std::string(8 << 20, ' '));
  EXPECT_EQ(answer.status, 413);
  EXPECT_NE(answer.json()["error"]["message"].get<std::string>().find("--max-body-bytes"),
            std::string::npos);
}

TEST_F(Http, TooLargeChunkedBodiesGet413) {
  options.max_body_bytes = 1024;
  start();
  Client client(server->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("1000\r\n" + std::string(0x1000, ' ') + "\r\n0\r\n\r\n");
  EXPECT_EQ(client.answer().status, 413);
  EXPECT_TRUE(client.is_at_end());
}

TEST_F(Http, BodiesShareABound) {
  options.max_body_bytes = 1 << 20;
  options.bounds.bodies_bytes = 1 << 20;
  start();
  Client first(server->port());
  first.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{");
  int status = 0;
  for (int i = 0; i < 600 && status != 503; ++i) {  // until the first one's header is read
    status = post("/tokenize", std::string(100'000, ' ')).status;
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(status, 503);
  first.close();
  for (int i = 0; i < 600 && status == 503; ++i) {
    status = post("/tokenize", std::string(100'000, ' ')).status;
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(status, 400) << "the bytes of a closed connection are free again";
}

TEST_F(Http, MalformedRequestsAreRefusedAndClosed) {
  start();
  Client client(server->port());
  client.send("NONSENSE\r\n\r\n");
  EXPECT_EQ(client.answer().status, 400);
  EXPECT_TRUE(client.is_at_end());
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(Http, HeadersHaveABound) {
  start();
  EXPECT_EQ(post("/v1/completions", "{}", "X-Long: " + std::string(20'000, 'x') + "\r\n").status,
            431);
}

TEST_F(Http, UnfinishedHeadersTimeOut) {
  options.timeouts.header = 50ms;
  start();
  Client client(server->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Le");
  EXPECT_EQ(client.answer().status, 408);
  EXPECT_TRUE(client.is_at_end());
}

TEST_F(Http, UnfinishedBodiesTimeOut) {
  options.timeouts.body = 50ms;
  start();
  Client client(server->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(client.answer().status, 408);
  EXPECT_TRUE(client.is_at_end());
}

TEST_F(Http, IdleConnectionsClose) {
  options.timeouts.idle = 50ms;
  start();
  Client client(server->port());
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_TRUE(client.is_at_end());
}

TEST_F(Http, ManyIdleConnectionsDoNotDisturb) {
  start();
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 400; ++i) idle.push_back(std::make_unique<Client>(server->port()));
  EXPECT_EQ(post("/v1/completions", R"({"prompt": "x"})").status, 200);
}

TEST_F(Http, APortInUseIsSaid) {
  start();
  boost::asio::io_context other;
  ServerOptions same = options;
  same.port = server->port();
  const auto second = Server::create(other, engine, model(), same);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().message(),
            fmt::format("port {} is in use on 127.0.0.1: stop the other server or pass --port",
                        same.port));
}

TEST_F(Http, AnUnknownHostIsSaid) {
  ServerOptions wrong = options;
  wrong.host = "999.1.2.3";
  const auto created = Server::create(io, engine, model(), wrong);
  ASSERT_FALSE(created.has_value());
  EXPECT_EQ(created.error().code(), ErrorCode::kInvalidInput);
}

TEST_F(Http, DrainingClosesIdleConnectionsAndRefusesNewWork) {
  options.timeouts.first_request_while_draining = 10s;
  start();
  Client fresh(server->port()), used(server->port());
  EXPECT_EQ(used.get("/health").status, 200);  // so both have been accepted
  std::promise<void> drained;
  on_io([&] {
    server->drain([&] { drained.set_value(); });
    return true;
  });
  EXPECT_TRUE(used.is_at_end());
  EXPECT_EQ(fresh.get("/health").status, 503);
  EXPECT_TRUE(fresh.is_at_end());
  EXPECT_EQ(drained.get_future().wait_for(60s), std::future_status::ready);
}

}  // namespace
}  // namespace fasteep
