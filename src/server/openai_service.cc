#include "server/openai_service.h"

namespace fasteep {
namespace {

namespace asio = boost::asio;

constexpr Duration kWakeUp = std::chrono::hours(1);  // waits have deadlines; they may go on

template <OpenAiCall call>
Result<PreparedRequest> prepare(const std::string& body, const ServedModel& model) {
  return prepare_request(call, body, model);
}

Result<std::string> tokenize_body(const std::string& body, const ServedModel& model) {
  FASTEEP_TRY(const OrderedJson json, parse_json(body));
  FASTEEP_TRY(const TokenizeRequest request, parse_tokenize_request(json, model));
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  FASTEEP_TRY(
      const std::vector<TokenId> tokens,
      chat ? model.text.encode_chat(*chat)
           : model.text.encode(std::get<std::string>(request.prompt), request.add_special_tokens));
  OrderedJson strings;
  if (request.return_token_strs) strings = OrderedJson::array();
  for (size_t i = 0; i < tokens.size() && request.return_token_strs; ++i)
    strings.push_back(model.text.token_bytes(tokens[i]));
  return to_text({{"count", tokens.size()},
                  {"max_model_len", model.max_model_len},
                  {"tokens", tokens},
                  {"token_strs", std::move(strings)}});
}

Result<std::string> detokenize_body(const std::string& body, const ServedModel& model) {
  FASTEEP_TRY(const OrderedJson json, parse_json(body));
  FASTEEP_TRY(const std::vector<TokenId> tokens, parse_detokenize_request(json, model));
  return to_text({{"prompt", model.text.decode(tokens, false)}});
}

HttpReply reply_of(Result<std::string> body) {
  return body ? HttpReply{200, std::move(*body)} : error_reply(body.error());
}

}  // namespace

OpenAiService::OpenAiService(Context context)
    : context_(std::move(context)), created_s_(unix_time_s()) {}

void OpenAiService::add_routes(Router& router) {
  const auto generate_as = [this](OpenAiCall call) {
    return Router::Coroutine([this, call](HttpRequest& request, HttpSession& session) {
      return generate(call, request, session);
    });
  };
  using Request = HttpRequest;
  using Session = HttpSession;
  const auto post = http::verb::post;
  router.add(post, "/v1/chat/completions", Access::kWithKey, generate_as(OpenAiCall::kChat));
  router.add(post, "/v1/completions", Access::kWithKey, generate_as(OpenAiCall::kCompletion));
  router.add(post, "/tokenize", Access::kWithKey,
             Router::Coroutine([this](Request& request, Session& session) {
               return tokenize(request, session);
             }));
  router.add(post, "/detokenize", Access::kWithKey,
             Router::Coroutine([this](Request& request, Session& session) {
               return detokenize(request, session);
             }));
  router.add(http::verb::get, "/v1/models", Access::kWithKey,
             Router::Function([this](const Request&) { return models(); }));
}

HttpReply OpenAiService::models() const {
  const ServedModel& model = context_.job.model;
  OrderedJson list = OrderedJson::array();
  for (const std::string& name : model.names)
    list.push_back({{"id", name},
                    {"object", "model"},
                    {"created", created_s_},
                    {"owned_by", "fasteep"},
                    {"root", model.names.front()},
                    {"parent", nullptr},
                    {"max_model_len", model.max_model_len}});
  return {200, to_text({{"object", "list"}, {"data", std::move(list)}})};
}

template <class T>
asio::awaitable<Result<T>> OpenAiService::with_body(HttpRequest& request,
                                                    Result<T> (*work)(const std::string& body,
                                                                      const ServedModel& model),
                                                    HttpSession& session) {
  const ServedModel& model = context_.job.model;
  const bool is_large =
      static_cast<int64_t>(request.body().size()) > context_.bounds.inline_body_bytes;
  std::function<Result<T>()> todo = [work, &model, body = std::move(request.body())] {
    return work(body, model);
  };
  if (!is_large) co_return TextPool::guarded(todo);
  const CloseWatch watch(session, [] {});
  co_return co_await context_.pool.run(std::move(todo));
}

asio::awaitable<void> OpenAiService::tokenize(HttpRequest& request, HttpSession& session) {
  Result<std::string> body = co_await with_body(request, tokenize_body, session);
  co_await session.send(reply_of(std::move(body)));
}

asio::awaitable<void> OpenAiService::detokenize(HttpRequest& request, HttpSession& session) {
  Result<std::string> body = co_await with_body(request, detokenize_body, session);
  co_await session.send(reply_of(std::move(body)));
}

asio::awaitable<void> OpenAiService::generate(OpenAiCall call, HttpRequest& request,
                                              HttpSession& session) {
  if (context_.registry->is_draining()) {
    co_await session.send(error_reply(503, "the server is draining: it takes no new requests"));
    co_return;
  }
  const auto work =
      call == OpenAiCall::kChat ? prepare<OpenAiCall::kChat> : prepare<OpenAiCall::kCompletion>;
  Result<PreparedRequest> prepared = co_await with_body(request, work, session);
  session.release_body();
  if (session.is_closed()) co_return;
  if (!prepared) {
    co_await session.send(error_reply(prepared.error()));
  } else if (prepared->fields.stream) {
    co_await reply_stream(*prepared, session);
  } else {
    co_await reply_whole(*prepared, session);
  }
}

asio::awaitable<void> OpenAiService::reply_whole(const PreparedRequest& request,
                                                 HttpSession& session) {
  const ResponseWriter writer(request, context_.job.model);
  AsyncEvent changed(session.executor());
  std::vector<ChoiceOutput> choices(request.prompts.size() * request.fields.n);
  std::shared_ptr<GenerationJob> job;
  job = GenerationJob::create(context_.job, request, [&](int index, const ChoiceOutput& delta) {
    if (index >= 0) choices[index].append(delta);
    if (job->is_finished()) changed.notify();
  });
  const Result<void> started = job->start();
  if (!started) {
    co_await session.send(error_reply(started.error()));
    co_return;
  }
  const CloseWatch watch(session, [&] {
    job->cancel();
    changed.notify();
  });
  while (!job->is_finished() && !session.is_closed())
    co_await changed.wait_until(system_clock().now() + kWakeUp);
  if (session.is_closed()) co_return;
  if (job->error()) {
    co_await session.send(error_reply(*job->error()));
  } else {
    // Named: GCC 12 destroys a braced temporary of a co_await twice.
    HttpReply reply{200, writer.whole(choices, job->usage())};
    co_await session.send(std::move(reply));
  }
}

asio::awaitable<void> OpenAiService::reply_stream(const PreparedRequest& request,
                                                  HttpSession& session) {
  const GenerationFields& fields = request.fields;
  ResponseWriter writer(request, context_.job.model);
  SseWriter events(static_cast<size_t>(context_.bounds.stream_bytes));
  AsyncEvent changed(session.executor());
  std::shared_ptr<GenerationJob> job;
  job = GenerationJob::create(context_.job, request, [&](int index, const ChoiceOutput& delta) {
    const Usage usage = fields.continuous_usage ? job->usage() : Usage();
    const Usage* shown = fields.continuous_usage ? &usage : nullptr;
    if (index >= 0 && !events.add(writer.chunk(index, delta, shown))) session.abort_soon();
    changed.notify();
  });
  const Result<void> started = job->start();
  if (!started) {
    co_await session.send(error_reply(started.error()));
    co_return;
  }
  const CloseWatch watch(session, [&] {
    job->cancel();
    changed.notify();
  });
  co_await session.begin_events();
  co_await write_stream(*job, events, changed, session);
  if (session.is_closed()) co_return;
  SseWriter last(static_cast<size_t>(context_.bounds.stream_bytes));
  if (job->error()) last.add(error_body(*job->error()));
  if (!job->error() && fields.include_usage) last.add(writer.usage_chunk(job->usage()));
  last.add("[DONE]");
  co_await session.write_events(last.take());
  co_await session.end_events();
}

// Until the job has ended and all its events are out, or the session is closed.
asio::awaitable<void> OpenAiService::write_stream(const GenerationJob& job, SseWriter& events,
                                                  AsyncEvent& changed, HttpSession& session) {
  while (!session.is_closed()) {
    if (!events.is_empty()) {
      const std::string text = events.take();
      co_await session.write_events(text);
    } else if (job.is_finished()) {
      co_return;
    } else {
      co_await changed.wait_until(system_clock().now() + kWakeUp);
    }
  }
}

}  // namespace fasteep
