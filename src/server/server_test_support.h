#pragma once
// For tests: a tokeniser of bytes, a scripted engine, a server around them, and a client.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <map>
#include <thread>

#include "server/server.h"

namespace fasteep::testing {

constexpr TokenId kBos = 256, kEos = 257;
constexpr int kVocabSize = 300;

// Token b is the byte b; 256 and 257 are special.
class ByteText final : public TextModel {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special) const override {
    std::vector<TokenId> tokens;
    if (add_special) tokens.push_back(kBos);
    for (const unsigned char byte : text) tokens.push_back(byte);
    return tokens;
  }
  Result<std::vector<TokenId>> encode_chat(const ChatPrompt& prompt) const override {
    std::string text;
    if (prompt.tools.is_array()) text += fmt::format("tools {};", prompt.tools.size());
    if (prompt.template_kwargs.contains("style"))
      text += prompt.template_kwargs["style"].get<std::string>() + ";";
    for (const OrderedJson& message : prompt.messages) {
      const auto content = message["content"].get<std::string>();
      if (content == "RAISE") return invalid_input("roles must alternate");
      text += message["role"].get<std::string>() + ":" + content + ";";
    }
    if (prompt.add_generation_prompt) text += "assistant:";
    return encode(text, prompt.add_special_tokens);
  }
  std::string decode(std::span<const TokenId> tokens, bool skip_special) const override {
    std::string text;
    for (const TokenId token : tokens)
      if (token < kBos || !skip_special) text += token_bytes(token);
    return text;
  }
  std::string token_bytes(TokenId token) const override {
    if (token == kBos) return "<bos>";
    if (token == kEos) return "<eos>";
    return token < 256 ? std::string(1, static_cast<char>(token)) : std::string();
  }
  std::unique_ptr<TokenStream> stream(bool skip_special) const override {
    return std::make_unique<Stream>(*this, skip_special);
  }

 private:
  class Stream final : public TokenStream {
   public:
    Stream(const ByteText& text, bool skip_special) : text_(text), skip_special_(skip_special) {}
    std::string push(TokenId token) override {
      held_ += text_.decode(std::array{token}, skip_special_);
      const bool is_inside = !held_.empty() && (held_.back() & 0x80) != 0 && held_.size() < 2;
      return is_inside ? std::string() : std::exchange(held_, {});  // characters of two bytes
    }
    std::string finish() override { return held_.empty() ? "" : "\xef\xbf\xbd"; }

   private:
    const ByteText& text_;
    const bool skip_special_;
    std::string held_;
  };
};

// Plays `script` for each request, one token per event, or (autoplay off) what the test emits.
// All members on the server's thread.
class ScriptedEngine final : public Engine {
 public:
  explicit ScriptedEngine(boost::asio::io_context& io) : io_(io) {}

  Result<RequestId> submit(GenerateRequest request, Stream stream) override {
    if (refuse_with && static_cast<int>(requests.size()) >= refuse_after) return *refuse_with;
    const RequestId id{next_id_++};
    requests.push_back(request);
    ids.push_back(id);
    live[id] = {std::move(request), std::move(stream)};
    if (autoplay) boost::asio::post(io_, [this, id] { play(id, 0); });
    return id;
  }
  void cancel(RequestId id) override {
    if (live.erase(id) > 0) cancelled.push_back(id);
  }
  EngineStatus status() const override {
    EngineStatus status;
    status.ready = not_ready_reason.empty();
    status.not_ready_reason = not_ready_reason;
    return status;
  }
  std::string metrics_text() const override { return "vllm:num_requests_running 0\n"; }

  void emit(RequestId id, const StreamEvent& event) {
    const auto found = live.find(id);
    if (found == live.end()) return;
    const Stream stream = found->second.stream;
    if (event.finish) live.erase(found);
    stream(event);
  }
  static GeneratedToken token(TokenId id, const GenerateRequest& request = {}) {
    GeneratedToken token;
    token.sample.token = id;
    token.sample.logprob = -0.5f;
    for (int i = 0; i < request.sampling.num_logprobs; ++i)
      token.sample.top.push_back({id + i, -0.5f - static_cast<float>(i)});
    if (request.logits_digest) token.logits_digest = 0xabc0 + static_cast<uint64_t>(id);
    return token;
  }

  std::string script = "Hello";  // then kEos
  bool autoplay = true;
  std::optional<Error> refuse_with;
  int refuse_after = 0;  // requests accepted before refuse_with holds
  std::string not_ready_reason;
  std::vector<GenerateRequest> requests;
  std::vector<RequestId> ids, cancelled;
  struct Live {
    GenerateRequest request;
    Stream stream;
  };
  std::map<RequestId, Live> live;

 private:
  void play(RequestId id, size_t position) {
    const auto found = live.find(id);
    if (found == live.end()) return;
    const GenerateRequest& request = found->second.request;
    const bool is_end = position >= script.size();
    StreamEvent event;
    const TokenId next = is_end ? kEos : static_cast<unsigned char>(script[position]);
    event.tokens = {token(next, request)};
    event.cached_prompt_tokens = 1;
    const auto& stops = request.stop_token_ids;
    const bool is_told = std::find(stops.begin(), stops.end(), next) != stops.end();
    if (is_told || (is_end && !request.ignore_eos)) {
      event.finish = FinishReason::kStop;
      event.stop_token = next;
    } else if (static_cast<int>(position) + 1 >= request.max_tokens) {
      event.finish = FinishReason::kLength;
    }
    const bool is_over = event.finish.has_value();
    emit(id, event);
    if (!is_over) boost::asio::post(io_, [this, id, position] { play(id, position + 1); });
  }

  boost::asio::io_context& io_;
  uint64_t next_id_ = 1;
};

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  OrderedJson json() const { return OrderedJson::parse(body); }
};

// A blocking HTTP client on one connection. A read that takes longer than kPatienceMs fails the
// test.
class Client {
 public:
  explicit Client(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server has closed: the answer tells
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void request(const std::string& method, const std::string& path, const std::string& body = "",
               const std::string& headers = "") {
    send(fmt::format("{} {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{}\r\n{}", method, path,
                     body.size(), headers, body));
  }
  Answer answer(bool is_head = false) {
    Answer answer;
    const size_t end = read_until("\r\n\r\n");
    if (end == std::string::npos) return answer;
    parse_head(input_.substr(0, end), answer);
    input_.erase(0, end + 4);
    if (is_head) return answer;
    if (answer.headers["transfer-encoding"] == "chunked") {
      read_chunks(answer.body);
    } else if (answer.headers.contains("content-length")) {
      answer.body = take(std::stoul(answer.headers["content-length"]));
    } else {
      while (read_some()) {
      }
      answer.body = std::exchange(input_, {});
    }
    return answer;
  }
  Answer post(const std::string& path, const std::string& body, const std::string& headers = "") {
    request("POST", path, body, headers);
    return answer();
  }
  Answer get(const std::string& path) {
    request("GET", path);
    return answer();
  }
  // Position of `text` in what has been received, reading on if need be.
  size_t read_until(const std::string& text) {
    while (input_.find(text) == std::string::npos)
      if (!read_some()) return std::string::npos;
    return input_.find(text);
  }
  bool is_at_end() {  // waits for the server to close
    while (read_some()) {
    }
    return !timed_out_;
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  void reset() {
    const linger hard{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close();
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  static constexpr int kPatienceMs = 60'000;

  bool read_some() {
    pollfd waiting{fd_, POLLIN, 0};
    timed_out_ = ::poll(&waiting, 1, kPatienceMs) == 0;
    EXPECT_FALSE(timed_out_) << "the server is silent; so far: " << input_.substr(0, 500);
    if (timed_out_) return false;
    char piece[16384];
    const ssize_t size = ::recv(fd_, piece, sizeof(piece), 0);
    if (size <= 0) return false;
    input_.append(piece, static_cast<size_t>(size));
    return true;
  }
  std::string take(size_t size) {
    while (input_.size() < size)
      if (!read_some()) break;
    std::string text = input_.substr(0, size);
    input_.erase(0, text.size());
    return text;
  }
  void read_chunks(std::string& body) {
    while (true) {
      const size_t end = read_until("\r\n");
      if (end == std::string::npos) return;
      const size_t size = std::stoul(input_.substr(0, end), nullptr, 16);
      input_.erase(0, end + 2);
      body += take(size);
      take(2);
      if (size == 0) return;
    }
  }
  static void parse_head(const std::string& head, Answer& answer) {
    answer.status = std::stoi(head.substr(9, 3));
    for (size_t at = head.find("\r\n"); at != head.npos;) {
      const size_t next = head.find("\r\n", at + 2);
      const std::string line = head.substr(at + 2, next == head.npos ? next : next - at - 2);
      const size_t colon = line.find(": ");
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), ::tolower);
      answer.headers[name] = line.substr(colon + 2);
      at = next;
    }
  }

  int fd_;
  std::string input_;
  bool timed_out_ = false;
};

// The `data:` payloads of a stream of events.
inline std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    EXPECT_EQ(body.substr(at, 6), "data: ");
    if (end == body.npos) break;
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return events;
}

// A server on a free port with its thread. Change `options` and `engine` before start().
class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    options.host = "127.0.0.1";
    options.port = 0;
  }
  ~ServerTest() override { shut_down(); }

  void start() {
    auto created = Server::create(io, engine, model(), options);
    ASSERT_TRUE(created.has_value()) << created.error().message();
    server = std::move(*created);
    thread = std::thread([this] { io.run(); });
  }
  ServedModel model() const { return {{"tiny", "alias"}, 200, kVocabSize, text, defaults, {kEos}}; }
  // Runs on the server's thread and waits for it.
  template <class F>
  auto on_io(F f) {
    // Shared: the result is here a moment before the task has ended there.
    auto task = std::make_shared<std::packaged_task<decltype(f())()>>(std::move(f));
    auto result = task->get_future();
    boost::asio::post(io, [task] { (*task)(); });
    return result.get();
  }
  // Waits until `condition`, asked on the server's thread, is true.
  template <class F>
  bool eventually(F condition) {
    for (int i = 0; i < 6000; ++i) {
      if (on_io(condition)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  void shut_down() {
    if (!thread.joinable()) return;
    on_io([this] {
      server.reset();
      return true;
    });
    io.stop();
    thread.join();
  }
  Answer post(const std::string& path, const std::string& body, const std::string& headers = "") {
    return Client(server->port()).post(path, body, headers);
  }
  Answer get(const std::string& path) { return Client(server->port()).get(path); }

  boost::asio::io_context io{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard{io.get_executor()};
  ByteText text;
  GenerationDefaults defaults;
  ServerOptions options;
  ScriptedEngine engine{io};
  std::unique_ptr<Server> server;
  std::thread thread;
};

}  // namespace fasteep::testing
