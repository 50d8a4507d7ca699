#include "exchange/window_layout.h"

#include <algorithm>

namespace fasteep {
namespace {
constexpr size_t kLine = 64, kPage = 4096;
size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

int entries_of_a_call(const ExchangeOptions& options) {
  const size_t fitting = kMaxAnswerBytes / (sizeof(float) * options.shape.hidden);
  const size_t all = static_cast<size_t>(options.max_rows) * options.top_k;
  return static_cast<int>(std::min(all, std::max<size_t>(fitting, options.top_k)));
}
}  // namespace

WindowLayout::WindowLayout(const ExchangeOptions& options)
    : max_ranks(options.max_ranks),
      max_rows(options.max_rows),
      hidden(options.shape.hidden),
      max_entries(entries_of_a_call(options)),
      row_bytes(fasteep::size_bytes(options.shape.dtype) * options.shape.hidden) {
  const size_t lanes = static_cast<size_t>(max_ranks) * kNumLanes;
  const size_t bitmap_bytes = round_up(max_entries, 64) / 8;
  call_stride = round_up(sizeof(CallHeader) + sizeof(uint32_t) * max_entries, kLine);
  answer_stride = round_up(sizeof(AnswerHeader) + bitmap_bytes, kLine);
  answer_rows_stride = round_up(sizeof(float) * hidden * max_entries, kPage);
  outbox = round_up(sizeof(ExchangeHeader), kPage);
  calls = outbox + round_up(row_bytes * max_rows, kPage);
  answers = calls + round_up(call_stride * lanes, kPage);
  answer_rows = answers + round_up(answer_stride * lanes, kPage);
  size_bytes = answer_rows + answer_rows_stride * lanes;
}

}  // namespace fasteep
