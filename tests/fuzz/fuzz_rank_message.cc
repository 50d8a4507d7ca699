// Arbitrary bytes on a control socket, read as the rank reads them and as the controller does.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>

#include "model/model_config.h"
#include "rank/api.pb.h"
#include "rank/frame_decoder.h"
#include "rank/messages.h"
#include "rank/rank_settings.h"

namespace fasteep {
namespace {

constexpr int kVocab = 1000;

void read_as_rank(std::string_view bytes) {
  api::ToRank message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  if (message.has_configure()) {
    const auto settings = to_settings(message.configure());
    if (settings) (void)to_message(*settings).ByteSizeLong();
  }
  if (message.has_load()) (void)to_view(message.load().view());
  if (message.has_publish_view()) {
    const auto view = to_view(message.publish_view());
    if (view) (void)to_message(**view).ByteSizeLong();
  }
  if (message.has_submit()) (void)to_sequence_request(message.submit(), kVocab);
}

void read_as_controller(std::string_view bytes) {
  api::FromRank message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  for (const api::Update& update : message.updates().updates()) {
    if (update.has_error()) (void)to_error(update.error());
    (void)to_sample(update);
  }
}

// The first byte says how much comes at a time.
void read_stream(const uint8_t* data, size_t size) {
  FrameDecoder decoder;
  const size_t piece = 1 + data[0];
  for (size_t at = 1; at < size; at += piece) {
    const size_t count = std::min(piece, size - at);
    decoder.append({reinterpret_cast<const char*>(data) + at, count});
    for (auto next = decoder.next(); next && next->has_value(); next = decoder.next()) {
      read_as_rank(**next);
      read_as_controller(**next);
    }
  }
}

}  // namespace
}  // namespace fasteep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  [[maybe_unused]] static const auto loud = google::protobuf::SetLogHandler(nullptr);
  if (size == 0) return 0;
  fasteep::read_stream(data, size);
  // Whole messages as well: a mutator seldom keeps a length right.
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  fasteep::read_as_rank(bytes);
  fasteep::read_as_controller(bytes);
  return 0;
}
