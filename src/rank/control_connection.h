#pragma once
// One end of the socket between the controller and a rank: protobuf messages, descriptors beside
// them, and never a blocking call. The rank uses it on its step thread, the controller under asio.
#include <google/protobuf/message_lite.h>
#include <sys/socket.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "rank/frame_decoder.h"
#include "transport/descriptor.h"

namespace fasteep {

// The two ends of a fresh Unix stream socket, close-on-exec.
Result<std::pair<Descriptor, Descriptor>> create_control_pair();

// Threads: one.
class ControlConnection {
 public:
  // Takes the socket over and makes it non-blocking.
  static Result<ControlConnection> open(Descriptor socket);

  int fd() const { return socket_.get(); }

  // Reads what is there. False when the other side has closed and all it sent has been read.
  Result<bool> read();
  // The next message that was read. Error kInvalidInput: too long or not a Message.
  template <class Message>
  Result<std::optional<Message>> next() {
    FASTEEP_TRY(const std::optional<std::string_view> frame, decoder_.next());
    if (!frame) return std::optional<Message>();
    std::optional<Message> message(std::in_place);
    if (!message->ParseFromArray(frame->data(), static_cast<int>(frame->size()))) {
      return invalid_input("a message of {} bytes that is no {}", frame->size(),
                           message->GetTypeName());
    }
    return message;
  }
  // The oldest descriptor that came and was not taken. Error kInvalidInput if there is none.
  Result<Descriptor> take_descriptor();

  // Queues a message; `descriptors` travel with its first byte. Error kExhausted: the other side
  // does not read, and kMaxFrameBytes are waiting already.
  Result<void> send(const google::protobuf::MessageLite& message,
                    std::vector<Descriptor> descriptors = {});
  // Writes what the socket takes. True when nothing is left.
  Result<bool> flush();
  // The other side reads the end; what is not sent yet is dropped.
  void shut_down();
  size_t pending_bytes() const { return pending_bytes_; }

 private:
  // A run of bytes; its descriptors are sent with the first of them.
  struct Outgoing {
    std::string bytes;
    size_t sent = 0;
    std::vector<Descriptor> descriptors;
  };
  explicit ControlConnection(Descriptor socket) : socket_(std::move(socket)) {}
  std::string& buffer_for(std::vector<Descriptor> descriptors);
  Result<size_t> read_piece();  // 0: closed; kWouldBlock: nothing there
  Result<void> keep_descriptors(msghdr& header);
  Result<bool> write_piece(Outgoing& piece);

  Descriptor socket_;
  FrameDecoder decoder_;
  std::deque<Descriptor> received_;
  std::deque<Outgoing> outgoing_;
  size_t pending_bytes_ = 0;
};

}  // namespace fasteep
