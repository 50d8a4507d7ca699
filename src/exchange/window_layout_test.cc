#include "exchange/window_layout.h"

#include <gtest/gtest.h>

namespace fasteep {
namespace {

ExchangeOptions options_of(int max_ranks, int max_rows, int hidden) {
  ExchangeOptions options;
  options.max_ranks = max_ranks;
  options.max_rows = max_rows;
  options.top_k = 8;
  options.shape = {DType::kBFloat16, hidden, 64};
  return options;
}

TEST(WindowLayout, PartsFollowEachOtherAndLanesDoNotOverlap) {
  const WindowLayout layout(options_of(5, 33, 100));
  std::vector<std::byte> memory(layout.size_bytes);
  const OwnWindow window(memory.data(), layout);
  auto address = [&](const void* p) { return static_cast<const std::byte*>(p) - memory.data(); };
  const RankId last(4);
  EXPECT_GE(address(window.outbox_row(0)), static_cast<std::ptrdiff_t>(sizeof(ExchangeHeader)));
  EXPECT_GE(address(&window.call(RankId(0), 0)), address(window.outbox_row(32)) + 200);
  EXPECT_GE(address(&window.call(RankId(0), 1)),
            address(window.entries(RankId(0), 0) + layout.max_entries));
  EXPECT_GE(address(&window.answer(RankId(0), 0)),
            address(window.entries(last, 1) + layout.max_entries));
  EXPECT_GE(address(&window.answer(RankId(0), 1)),
            address(window.refused(RankId(0), 0) + (layout.max_entries + 63) / 64));
  EXPECT_GE(address(window.answer_row(RankId(0), 0, 0)), address(&window.answer(last, 1)));
  EXPECT_LE(address(window.answer_row(last, 1, layout.max_entries - 1) + 100),
            static_cast<std::ptrdiff_t>(layout.size_bytes));
}

TEST(WindowLayout, ACallHoldsAsManyEntriesAsAnAnswerOfFourMiB) {
  EXPECT_EQ(WindowLayout(options_of(4, 512, 2048)).max_entries, 512);
  EXPECT_EQ(WindowLayout(options_of(4, 2, 2048)).max_entries, 16) << "never more than all entries";
  EXPECT_EQ(WindowLayout(options_of(4, 512, 1 << 20)).max_entries, 8) << "at least one row's";
}

TEST(WindowLayout, EqualOptionsGiveEqualWindowsInAllRanks) {
  ExchangeOptions a = options_of(9, 64, 256), b = a;
  b.rank = RankId(3);
  b.incarnation = Incarnation(7);
  b.may_spin = !a.may_spin;
  EXPECT_EQ(Exchange::window_size_bytes(a), Exchange::window_size_bytes(b));
}

}  // namespace
}  // namespace fasteep
