#pragma once
// The OpenAI API, and vLLM's neighbours of it, on an engine.
#include <memory>

#include "server/generation_job.h"
#include "server/router.h"
#include "server/session_registry.h"
#include "server/sse_writer.h"
#include "server/text_pool.h"

namespace fasteep {

// Threads: the server's.
class OpenAiService {
 public:
  struct Context {
    GenerationJob::Context job;
    TextPool& pool;
    HttpBounds bounds;
    std::shared_ptr<SessionRegistry> registry;  // shared: see HttpSession
  };
  explicit OpenAiService(Context context);

  // The service outlives the requests that come by these routes.
  void add_routes(Router& router);

 private:
  using Awaitable = boost::asio::awaitable<void>;

  Awaitable generate(OpenAiCall call, HttpRequest& request, HttpSession& session);
  Awaitable reply_whole(const PreparedRequest& request, HttpSession& session);
  Awaitable reply_stream(const PreparedRequest& request, HttpSession& session);
  Awaitable write_stream(const GenerationJob& job, SseWriter& events, AsyncEvent& changed,
                         HttpSession& session);
  Awaitable tokenize(HttpRequest& request, HttpSession& session);
  Awaitable detokenize(HttpRequest& request, HttpSession& session);
  // Runs `work` here if the body is small, else on the pool.
  template <class T>
  boost::asio::awaitable<Result<T>> with_body(HttpRequest& request,
                                              Result<T> (*work)(const std::string& body,
                                                                const ServedModel& model),
                                              HttpSession& session);
  HttpReply models() const;

  Context context_;
  int64_t created_s_;
};

}  // namespace fasteep
