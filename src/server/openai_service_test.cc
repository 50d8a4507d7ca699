// Generations over a socket: bodies, streams, errors, closed and slow connections.
#include <gtest/gtest.h>

#include "server/server_test_support.h"

namespace fasteep {
namespace {

using namespace std::chrono_literals;
using testing::Answer;
using testing::Client;
using testing::events_of;
using testing::kEos;
using testing::ScriptedEngine;

class Generation : public testing::ServerTest {
 protected:
  std::vector<std::string> stream(const std::string& path, const std::string& body) {
    const Answer answer = post(path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream; charset=utf-8");
    return events_of(answer.body);
  }
  size_t num_requests() {
    return on_io([this] { return engine.requests.size(); });
  }
  // Submits one request whose tokens the test emits; returns once the engine has it.
  void begin(Client& client, const std::string& body, size_t num_children = 1) {
    client.request("POST", "/v1/completions", body);
    EXPECT_TRUE(eventually([&] { return engine.requests.size() == num_children; }));
  }
  void emit(StreamEvent event) {
    on_io([&] {
      engine.emit(engine.ids.back(), event);
      return true;
    });
  }
  static StreamEvent token(TokenId id) {
    StreamEvent event;
    event.tokens = {ScriptedEngine::token(id)};
    return event;
  }
  static StreamEvent error(ErrorCode code, const std::string& message) {
    StreamEvent event;
    event.finish = FinishReason::kError;
    event.error = Error(code, message);
    return event;
  }
  bool all_cancelled(size_t count) {
    return eventually([&] { return engine.cancelled.size() == count && engine.live.empty(); });
  }
};

TEST_F(Generation, CompletionBody) {
  start();
  const OrderedJson body = post("/v1/completions", R"({"prompt": "abc"})").json();
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(
      body["choices"].dump(),
      R"([{"index":0,"text":"Hello","logprobs":null,"finish_reason":"stop","stop_reason":null}])");
  EXPECT_EQ(body["usage"].dump(), R"({"prompt_tokens":4,"total_tokens":10,"completion_tokens":6,)"
                                  R"("prompt_tokens_details":{"cached_tokens":1}})");
}

TEST_F(Generation, ChatBody) {
  start();
  const OrderedJson body =
      post("/v1/chat/completions",
           R"({"messages": [{"role": "user", "content": "hi"}], "model": "alias"})")
          .json();
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "alias");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(body["choices"][0]["message"].dump(), R"({"role":"assistant","content":"Hello"})");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
}

TEST_F(Generation, ChatPromptGoesThroughTheTemplate) {
  start();
  post("/v1/chat/completions",
       R"({"messages": [{"role": "user", "content": "hi"}], "tools": [{}],
         "chat_template_kwargs": {"style": "short"}})");
  const auto prompt = on_io([&] { return engine.requests.back().prompt; });
  EXPECT_EQ(text.decode(prompt, false), "tools 1;short;user:hi;assistant:");
}

TEST_F(Generation, ParametersReachTheEngine) {
  start();
  post("/v1/completions",
       R"({"prompt": [5, 6], "temperature": 0, "seed": 9, "max_tokens": 3, "stop_token_ids": [7],
         "ignore_eos": true, "return_logits_digest": true, "top_k": 4})");
  const GenerateRequest request = on_io([&] { return engine.requests.back(); });
  EXPECT_EQ(request.prompt, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(request.sampling.temperature, 0.0f);
  EXPECT_EQ(request.sampling.seed, 9u);
  EXPECT_EQ(request.sampling.top_k, 4);
  EXPECT_EQ(request.max_tokens, 3);
  EXPECT_EQ(request.stop_token_ids, std::vector<TokenId>{7});
  EXPECT_TRUE(request.ignore_eos && request.logits_digest);
}

TEST_F(Generation, LengthEndsAChoice) {
  start();
  const OrderedJson choice =
      post("/v1/completions", R"({"prompt": "x", "max_tokens": 2})").json()["choices"][0];
  EXPECT_EQ(choice["text"], "He");
  EXPECT_EQ(choice["finish_reason"], "length");
}

TEST_F(Generation, TokenIdsAndDigestsOnRequest) {
  start();
  const OrderedJson choice =
      post(
          "/v1/completions",
          R"({"prompt": [65], "max_tokens": 2, "return_token_ids": true, "return_logits_digest": true})")
          .json()["choices"][0];
  EXPECT_EQ(choice["prompt_token_ids"].dump(), "[65]");
  EXPECT_EQ(choice["token_ids"].dump(), "[72,101]");
  EXPECT_EQ(choice["logits_digests"].dump(), R"(["000000000000ac08","000000000000ac25"])");
}

TEST_F(Generation, ChatTokenIdsStandWhereVllmPutsThem) {
  start();
  const std::string body =
      R"({"messages": [{"role": "user", "content": ""}], "max_tokens": 1, "return_token_ids": true)";
  const OrderedJson whole = post("/v1/chat/completions", body + "}").json();
  EXPECT_EQ(whole["prompt_token_ids"], whole["choices"][0]["prompt_token_ids"]);
  EXPECT_EQ(whole["choices"][0]["token_ids"].dump(), "[72]");
  const auto first =
      OrderedJson::parse(stream("/v1/chat/completions", body + R"(, "stream": true})")[0]);
  EXPECT_EQ(first["prompt_token_ids"], whole["prompt_token_ids"]);
  EXPECT_EQ(first["choices"][0]["token_ids"].dump(), "[72]");
}

TEST_F(Generation, ChatLogprobs) {
  start();
  const OrderedJson logprobs =
      post("/v1/chat/completions",
           R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "logprobs": true,
             "top_logprobs": 2})")
          .json()["choices"][0]["logprobs"];
  EXPECT_EQ(
      logprobs.dump(),
      R"({"content":[{"token":"H","logprob":-0.5,"bytes":[72],"top_logprobs":[)"
      R"({"token":"H","logprob":-0.5,"bytes":[72]},{"token":"I","logprob":-1.5,"bytes":[73]}]}]})");
}

TEST_F(Generation, CompletionLogprobs) {
  start();
  const OrderedJson logprobs =
      post("/v1/completions", R"({"prompt": "x", "max_tokens": 2, "logprobs": 2})")
          .json()["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs.dump(),
            R"({"text_offset":[0,1],"token_logprobs":[-0.5,-0.5],"tokens":["H","e"],)"
            R"("top_logprobs":[{"H":-0.5,"I":-1.5},{"e":-0.5,"f":-1.5}]})");
}

TEST_F(Generation, StreamedOffsetsGoOn) {
  start();
  const auto events = stream("/v1/completions",
                             R"({"prompt": "x", "max_tokens": 2, "logprobs": 0, "stream": true})");
  EXPECT_EQ(OrderedJson::parse(events[1])["choices"][0]["logprobs"]["text_offset"].dump(), "[1]");
}

TEST_F(Generation, CompletionStream) {
  engine.script = "Hi";
  start();
  const auto events = stream("/v1/completions", R"({"prompt": "x", "stream": true})");
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(OrderedJson::parse(events[0])["choices"].dump(),
            R"([{"index":0,"text":"H","logprobs":null,"finish_reason":null,"stop_reason":null}])");
  EXPECT_EQ(OrderedJson::parse(events[2])["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[3], "[DONE]");
}

TEST_F(Generation, ChatStream) {
  engine.script = "Hi";
  start();
  const auto events = stream("/v1/chat/completions",
                             R"({"messages": [{"role": "user", "content": "x"}], "stream": true})");
  ASSERT_EQ(events.size(), 4u);
  const auto first = OrderedJson::parse(events[0]);
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"].dump(), R"({"role":"assistant","content":"H"})");
  EXPECT_EQ(OrderedJson::parse(events[1])["choices"][0]["delta"].dump(), R"({"content":"i"})");
  EXPECT_EQ(events[3], "[DONE]");
}

TEST_F(Generation, UsageIsTheLastChunkOnRequest) {
  engine.script = "Hi";
  start();
  const auto events = stream("/v1/completions", R"({"prompt": "x", "stream": true,
      "stream_options": {"include_usage": true, "continuous_usage_stats": true}})");
  ASSERT_EQ(events.size(), 5u);
  const auto last = OrderedJson::parse(events[3]);
  EXPECT_EQ(last["choices"].dump(), "[]");
  EXPECT_EQ(last["usage"]["completion_tokens"], 3);
  EXPECT_EQ(OrderedJson::parse(events[0])["usage"]["completion_tokens"], 1);
}

TEST_F(Generation, OldHttpStreamsUntilTheEnd) {
  start();
  Client client(server->port());
  const std::string body = R"({"prompt": "x", "stream": true})";
  client.send(fmt::format("POST /v1/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}",
                          body.size(), body));
  EXPECT_EQ(events_of(client.answer().body).back(), "[DONE]");
}

TEST_F(Generation, ChoicesHaveSeedsInARowAndUsageSums) {
  start();
  const OrderedJson body =
      post("/v1/completions", R"({"prompt": ["a", "b"], "n": 2, "seed": 5, "max_tokens": 1})")
          .json();
  ASSERT_EQ(body["choices"].size(), 4u);
  EXPECT_EQ(body["choices"][3]["index"], 3);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  const auto seeds = on_io([&] {
    std::vector<uint64_t> seeds;
    for (const auto& request : engine.requests) seeds.push_back(request.sampling.seed);
    return seeds;
  });
  EXPECT_EQ(seeds, (std::vector<uint64_t>{5, 6, 5, 6}));
}

TEST_F(Generation, StreamedChoicesCarryTheirIndex) {
  engine.script = "";
  start();
  const auto events = stream("/v1/completions", R"({"prompt": "a", "n": 2, "stream": true})");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(OrderedJson::parse(events[0])["choices"][0]["index"], 0);
  EXPECT_EQ(OrderedJson::parse(events[1])["choices"][0]["index"], 1);
}

TEST_F(Generation, AStopStringCancelsTheEnginesRequest) {
  engine.autoplay = false;
  start();
  Client client(server->port());
  begin(client, R"({"prompt": "x", "stop": ["lo"], "max_tokens": 100})");
  for (const char c : std::string("Hello")) emit(token(c));
  const OrderedJson choice = client.answer().json()["choices"][0];
  EXPECT_EQ(choice["text"], "Hel");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], "lo");
  EXPECT_TRUE(all_cancelled(1));
}

TEST_F(Generation, AClientsStopTokenEndsTheChoice) {
  start();
  const OrderedJson choice =
      post("/v1/completions", R"({"prompt": "x", "stop_token_ids": [108]})").json()["choices"][0];
  EXPECT_EQ(choice["text"], "He");
  EXPECT_EQ(choice["stop_reason"], 108);
}

TEST_F(Generation, BadRequestsNameTheField) {
  start();
  const Answer answer = post("/v1/completions", R"({"prompt": "x", "temperature": "hot"})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(
      answer.body,
      R"({"error":{"message":"temperature must be a number, got \"hot\"","type":"BadRequestError",)"
      R"("param":"temperature","code":400}})");
  EXPECT_EQ(post("/v1/completions", "{\"prompt\": \"\xff\"}").status, 400);
  EXPECT_EQ(post("/v1/completions", std::string(100'000, '[')).status, 400);
  EXPECT_EQ(post("/v1/completions", R"({"prompt": "x", "model": "nobody"})").status, 404);
  EXPECT_EQ(num_requests(), 0u);
}

TEST_F(Generation, AFullQueueIs429AndTakesNoneOfTheChoices) {
  engine.refuse_with = Error(ErrorCode::kExhausted, "the queue is full");
  engine.refuse_after = 1;
  engine.autoplay = false;
  start();
  const Answer answer = post("/v1/completions", R"({"prompt": "x", "n": 2, "stream": true})");
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  EXPECT_TRUE(all_cancelled(1));
}

TEST_F(Generation, AnEngineThatDoesNotServeIs503) {
  engine.refuse_with = Error(ErrorCode::kUnavailable, "starting");
  start();
  const Answer answer = post("/v1/completions", R"({"prompt": "x"})");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
}

TEST_F(Generation, ALostRankIsAnError500) {
  engine.autoplay = false;
  start();
  Client client(server->port());
  begin(client, R"({"prompt": "x"})");
  emit(error(ErrorCode::kPeerLost, "rank 2 died"));
  const Answer answer = client.answer();
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.json()["error"]["type"], "rank_lost");
  EXPECT_EQ(client.get("/health").status, 200) << "the connection is still good";
}

TEST_F(Generation, ALostRankEndsAStreamWithOneError) {
  engine.autoplay = false;
  start();
  Client client(server->port());
  begin(client,
        R"({"prompt": "x", "stream": true, "n": 2, "stream_options": {"include_usage": true}})", 2);
  emit(token('H'));
  emit(error(ErrorCode::kPeerLost, "rank 2 died"));
  const auto events = events_of(client.answer().body);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(OrderedJson::parse(events[1])["error"]["type"], "rank_lost");
  EXPECT_EQ(events[2], "[DONE]");
  EXPECT_TRUE(all_cancelled(1)) << "the other choice";
}

TEST_F(Generation, AResetConnectionCancelsAllChoices) {
  engine.autoplay = false;
  start();
  Client client(server->port());
  begin(client, R"({"prompt": "x", "n": 3})", 3);
  client.reset();
  EXPECT_TRUE(all_cancelled(3));
}

TEST_F(Generation, AHalfClosedConnectionCancelsAnIdleStream) {
  engine.autoplay = false;
  start();
  Client client(server->port());
  begin(client, R"({"prompt": "x", "stream": true})");
  emit(token('H'));
  client.read_until("data: ");
  client.half_close();
  EXPECT_TRUE(all_cancelled(1));
  EXPECT_TRUE(client.is_at_end());
}

TEST_F(Generation, PipelinedRequestsDoNotHideAClosedConnection) {
  engine.autoplay = false;
  start();
  Client client(server->port());
  begin(client, R"({"prompt": "x"})");
  client.request("GET", "/health");
  client.close();
  EXPECT_TRUE(all_cancelled(1));
}

TEST_F(Generation, AClientThatDoesNotReadIsCutOff) {
  options.bounds.stream_bytes = 1000;
  engine.autoplay = false;
  start();
  Client client(server->port());
  begin(client, R"({"prompt": "x", "stream": true, "max_tokens": 190})");
  // Far more than the kernel buffers for a client that does not read.
  const bool cut = eventually([&] {
    for (int i = 0; i < 1000 && !engine.live.empty(); ++i)
      engine.emit(engine.ids.back(), token('x'));
    return engine.live.empty();
  });
  EXPECT_TRUE(cut);
  EXPECT_TRUE(all_cancelled(1));
}

TEST_F(Generation, AStuckWriteTimesOut) {
  options.timeouts.write = 50ms;
  options.bounds.stream_bytes = 1 << 30;
  engine.autoplay = false;
  start();
  Client client(server->port());
  begin(client, R"({"prompt": "x", "stream": true})");
  on_io([&] {
    for (int i = 0; i < 60'000; ++i) engine.emit(engine.ids.back(), token('x'));
    return true;
  });
  EXPECT_TRUE(all_cancelled(1));
}

TEST_F(Generation, LongBodiesDoNotHoldUpStreams) {
  options.bounds.inline_body_bytes = 100;
  start();
  const std::string prompt(150, 'a');
  EXPECT_EQ(post("/v1/completions", fmt::format(R"({{"prompt": "{}"}})", prompt))
                .json()["usage"]["prompt_tokens"],
            151);
  EXPECT_EQ(post("/v1/completions", fmt::format(R"({{"prompt": "{}"}})", std::string(2 << 20, 'a')))
                .status,
            400);
  EXPECT_EQ(post("/tokenize", fmt::format(R"({{"prompt": "{}"}})", prompt)).json()["count"], 151);
}

TEST_F(Generation, TenMegabytesAreAnsweredClearly) {
  start();
  const Answer answer =
      post("/v1/completions", fmt::format(R"({{"prompt": "{}"}})", std::string(10 << 20, 'a')));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["error"]["param"], "prompt");
}

TEST_F(Generation, TokenizeAndBack) {
  start();
  EXPECT_EQ(post("/tokenize", R"({"prompt": "Hi"})").body,
            R"({"count":3,"max_model_len":200,"tokens":[256,72,105],"token_strs":null})");
  EXPECT_EQ(post("/tokenize",
                 R"({"prompt": "Hi", "add_special_tokens": false, "return_token_strs": true})")
                .json()["token_strs"]
                .dump(),
            R"(["H","i"])");
  EXPECT_EQ(
      post("/tokenize", R"({"messages": [{"role": "user", "content": "x"}]})").json()["count"], 17);
  EXPECT_EQ(post("/detokenize", R"({"tokens": [256, 72, 105]})").body, R"({"prompt":"<bos>Hi"})");
  EXPECT_EQ(post("/detokenize", R"({"tokens": "x"})").json()["error"]["param"], "tokens");
}

TEST_F(Generation, MetricsCount) {
  start();
  post("/v1/completions", R"({"prompt": "abc", "max_tokens": 2})");
  const Answer answer = get("/metrics");
  const auto has = [&](const std::string& line) {
    return answer.body.find(line) != std::string::npos;
  };
  EXPECT_TRUE(has("vllm:prompt_tokens_total{model_name=\"tiny\"} 4")) << answer.body;
  EXPECT_TRUE(has("vllm:generation_tokens_total{model_name=\"tiny\"} 2"));
  EXPECT_TRUE(has("vllm:request_success_total{finished_reason=\"length\",model_name=\"tiny\"} 1"));
  EXPECT_TRUE(has("vllm:time_to_first_token_seconds_count{model_name=\"tiny\"} 1"));
  EXPECT_TRUE(has("vllm:inter_token_latency_seconds_count{model_name=\"tiny\"} 1"));
  EXPECT_TRUE(has("vllm:e2e_request_latency_seconds_count{model_name=\"tiny\"} 1"));
  EXPECT_TRUE(has("vllm:num_requests_running 0")) << "the engine's part";
}

TEST_F(Generation, DrainingLetsStreamsFinish) {
  engine.autoplay = false;
  start();
  Client client(server->port());
  begin(client, R"({"prompt": "x", "stream": true})");
  std::promise<void> drained;
  auto is_drained = drained.get_future();
  on_io([&] {
    server->drain([&] { drained.set_value(); });
    return true;
  });
  EXPECT_EQ(is_drained.wait_for(50ms), std::future_status::timeout);
  StreamEvent last = token(kEos);
  last.finish = FinishReason::kStop;
  last.stop_token = kEos;
  emit(last);
  EXPECT_EQ(events_of(client.answer().body).back(), "[DONE]");
  EXPECT_EQ(is_drained.wait_for(60s), std::future_status::ready);
}

TEST_F(Generation, StoppingCancelsEverything) {
  engine.autoplay = false;
  start();
  Client client(server->port());
  begin(client, R"({"prompt": "x", "stream": true})");
  on_io([&] {
    server->stop();
    return true;
  });
  EXPECT_TRUE(all_cancelled(1));
  EXPECT_TRUE(client.is_at_end());
}

}  // namespace
}  // namespace fasteep
