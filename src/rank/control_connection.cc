#include "rank/control_connection.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

namespace fasteep {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr int kMaxReads = 256;           // per call: others want to be served as well
constexpr size_t kJoinBytes = 64 << 10;  // small messages share one write up to this size
constexpr size_t kMaxDescriptors = 2;    // with one message
constexpr size_t kMaxKeptDescriptors = 1024;
constexpr size_t kWouldBlock = std::numeric_limits<size_t>::max();

}  // namespace

Result<std::pair<Descriptor, Descriptor>> create_control_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return io_error("create a control socket", errno);
  }
  return std::pair(Descriptor(fds[0]), Descriptor(fds[1]));
}

Result<ControlConnection> ControlConnection::open(Descriptor socket) {
  const int flags = fcntl(socket.get(), F_GETFL);
  if (flags < 0 || fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return io_error(fmt::format("control socket {}", socket.get()), errno);
  }
  return ControlConnection(std::move(socket));
}

Result<void> ControlConnection::keep_descriptors(msghdr& header) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      received_.emplace_back(fd);
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    return make_error(ErrorCode::kIo,
                      "descriptors were lost: raise the open files limit (ulimit -n)");
  }
  if (received_.size() > kMaxKeptDescriptors) {
    return invalid_input("{} descriptors came that no message asked for", received_.size());
  }
  return {};
}

Result<size_t> ControlConnection::read_piece() {
  std::array<char, kReadBytes> bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control;
  iovec part{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = recvmsg(fd(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return kWouldBlock;
  if (size < 0 && errno == ECONNRESET) return size_t{0};
  if (size < 0) return io_error("read a control message", errno);
  FASTEEP_TRY_VOID(keep_descriptors(header));
  decoder_.append(std::string_view(bytes.data(), static_cast<size_t>(size)));
  return static_cast<size_t>(size);
}

Result<bool> ControlConnection::read() {
  for (int i = 0; i < kMaxReads; ++i) {
    FASTEEP_TRY(const size_t size, read_piece());
    if (size == 0) return false;
    if (size == kWouldBlock) return true;
  }
  return true;
}

Result<Descriptor> ControlConnection::take_descriptor() {
  if (received_.empty()) return invalid_input("a message came without its descriptors");
  Descriptor oldest = std::move(received_.front());
  received_.pop_front();
  return oldest;
}

// Where the next message's bytes go: behind the last ones, or a run of their own.
std::string& ControlConnection::buffer_for(std::vector<Descriptor> descriptors) {
  const bool joins = descriptors.empty() && !outgoing_.empty() &&
                     outgoing_.back().descriptors.empty() &&
                     outgoing_.back().bytes.size() < kJoinBytes;
  if (!joins) outgoing_.push_back({{}, 0, std::move(descriptors)});
  return outgoing_.back().bytes;
}

Result<void> ControlConnection::send(const google::protobuf::MessageLite& message,
                                     std::vector<Descriptor> descriptors) {
  CHECK(descriptors.size() <= kMaxDescriptors, "{} descriptors with one message",
        descriptors.size());
  const size_t size = message.ByteSizeLong();
  if (size > kMaxFrameBytes) {
    return invalid_input("a message of {} bytes; at most {} are allowed", size, kMaxFrameBytes);
  }
  if (pending_bytes_ > kMaxFrameBytes) {
    return make_error(ErrorCode::kExhausted, "the other side does not read: {} bytes are waiting",
                      pending_bytes_);
  }
  std::string& buffer = buffer_for(std::move(descriptors));
  const size_t at = buffer.size();
  buffer.resize(at + kFrameHeaderBytes + size);
  write_frame_header(static_cast<uint32_t>(size), buffer.data() + at);
  const bool written =
      message.SerializeToArray(buffer.data() + at + kFrameHeaderBytes, static_cast<int>(size));
  CHECK(written, "a message of {} bytes does not serialise", size);
  pending_bytes_ += kFrameHeaderBytes + size;
  return {};
}

// False: the socket is full.
Result<bool> ControlConnection::write_piece(Outgoing& piece) {
  iovec part{piece.bytes.data() + piece.sent, piece.bytes.size() - piece.sent};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  if (!piece.descriptors.empty()) {
    const size_t bytes = piece.descriptors.size() * sizeof(int);
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(bytes);
    for (size_t i = 0; i < piece.descriptors.size(); ++i) {
      const int fd = piece.descriptors[i].get();
      std::memcpy(CMSG_DATA(rights) + i * sizeof(int), &fd, sizeof(int));
    }
  }
  ssize_t size = 0;
  do {
    size = sendmsg(fd(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (size < 0) return io_error("write a control message", errno);
  piece.descriptors.clear();
  piece.sent += static_cast<size_t>(size);
  pending_bytes_ -= static_cast<size_t>(size);
  return true;
}

Result<bool> ControlConnection::flush() {
  while (!outgoing_.empty()) {
    Outgoing& piece = outgoing_.front();
    FASTEEP_TRY(const bool written, write_piece(piece));
    if (!written) return false;
    if (piece.sent == piece.bytes.size()) outgoing_.pop_front();
  }
  return true;
}

void ControlConnection::shut_down() {
  outgoing_.clear();
  pending_bytes_ = 0;
  received_.clear();
  shutdown(fd(), SHUT_RDWR);
}

}  // namespace fasteep
