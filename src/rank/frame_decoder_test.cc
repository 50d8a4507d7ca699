#include "rank/frame_decoder.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace fasteep {
namespace {

std::string frame(std::string_view body) {
  std::string bytes(kFrameHeaderBytes, '\0');
  write_frame_header(static_cast<uint32_t>(body.size()), bytes.data());
  return bytes + std::string(body);
}

TEST(FrameDecoder, GivesNothingBeforeTheLastByte) {
  FrameDecoder decoder;
  const std::string bytes = frame("hello");
  decoder.append(std::string_view(bytes).substr(0, bytes.size() - 1));
  EXPECT_FALSE(decoder.next()->has_value());
  decoder.append(std::string_view(bytes).substr(bytes.size() - 1));
  EXPECT_EQ(decoder.next()->value(), "hello");
  EXPECT_FALSE(decoder.next()->has_value());
}

TEST(FrameDecoder, AnEmptyMessageIsAMessage) {
  FrameDecoder decoder;
  decoder.append(frame(""));
  EXPECT_EQ(decoder.next()->value(), "");
}

TEST(FrameDecoder, RefusesALengthOverTheLimit) {
  FrameDecoder decoder;
  std::string header(kFrameHeaderBytes, '\0');
  write_frame_header(kMaxFrameBytes + 1, header.data());
  decoder.append(header);
  auto refused = decoder.next();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find(std::to_string(kMaxFrameBytes + 1)), std::string::npos);
}

RC_GTEST_PROP(FrameDecoder, MessagesSurviveAnyCutOfTheStream,
              (const std::vector<std::string>& bodies, const std::vector<uint8_t>& cuts)) {
  std::string stream;
  for (const std::string& body : bodies) stream += frame(body);
  FrameDecoder decoder;
  std::vector<std::string> got;
  size_t at = 0, cut = 0;
  while (at < stream.size()) {
    const size_t wish = cut < cuts.size() ? cuts[cut++] : stream.size();
    const size_t size = std::min(std::max<size_t>(1, wish), stream.size() - at);
    decoder.append(std::string_view(stream).substr(at, size));
    at += size;
    for (auto next = decoder.next(); next && next->has_value(); next = decoder.next()) {
      got.emplace_back(**next);
    }
  }
  RC_ASSERT(got == bodies);
}

}  // namespace
}  // namespace fasteep
