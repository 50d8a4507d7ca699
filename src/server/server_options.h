#pragma once
// Settings of the HTTP server.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/settings.h"

namespace fasteep {

// Not settings: nobody tunes them, but tests shorten them.
struct HttpTimeouts {
  Duration header =
      std::chrono::seconds(60);              // from a request's first byte to the end of its header
  Duration body = std::chrono::seconds(60);  // between two pieces of a body
  Duration idle = std::chrono::seconds(300);  // between two requests of a connection
  Duration write = std::chrono::seconds(60);  // until the client takes what was sent
  Duration linger = std::chrono::seconds(5);  // for a refused body to drain, so the refusal is read
  Duration first_request_while_draining = std::chrono::seconds(1);
};

struct HttpBounds {
  int64_t stream_bytes = 1 << 20;        // unsent output of one stream; a slower client is cut off
  int64_t bodies_bytes = 256ll << 20;    // request bodies held at a time, over all connections
  int connections = 16384;               // open at a time
  int64_t inline_body_bytes = 64 << 10;  // larger bodies are parsed and tokenised on another thread
};

struct ServerOptions {
  std::string host = "0.0.0.0";
  int port = 8000;
  std::string served_model_name;  // comma separated; empty: the model folder's name
  std::string api_key;            // comma separated; empty: open to all
  int64_t max_body_bytes = 32ll << 20;
  HttpTimeouts timeouts;
  HttpBounds bounds;

  template <class V>
  void visit(V& v) {
    v(host, "host", "address to listen on");
    v(port, "port", "TCP port to listen on; 0: any free one", Range{0, 65535});
    v(served_model_name, "served-model-name",
      "names of the model in the API, comma separated; answers carry the first (default: the "
      "folder's name)");
    v(api_key, "api-key", "require `Authorization: Bearer KEY`; several keys are comma separated");
    v(max_body_bytes, "max-body-bytes", "largest request body; larger ones get 413", Bytes{},
      Range{1024, 1 << 30});
  }
};

// "a, b" -> {"a", "b"}; blanks around and empty items are dropped.
std::vector<std::string> split_list(std::string_view text);

}  // namespace fasteep
