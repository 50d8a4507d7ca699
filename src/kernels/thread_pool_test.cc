#include "kernels/thread_pool.h"

#include <gtest/gtest.h>

#include <ctime>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/isa.h"
#include "kernels/probe.h"

namespace fasteep {
namespace {

class ThreadPoolTest : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  ThreadPool pool{std::get<0>(GetParam()), {}, std::get<1>(GetParam())};
};

TEST_P(ThreadPoolTest, EveryThreadRunsTheTaskOnceEachTime) {
  std::vector<int> runs(pool.num_threads());
  for (int i = 0; i < 200; ++i) pool.run([&](int thread) { ++runs[thread]; });
  EXPECT_EQ(runs, std::vector<int>(pool.num_threads(), 200));
}

TEST_P(ThreadPoolTest, ParallelForCoversTheRangeOnce) {
  for (int64_t count : {0, 1, 7, 100}) {
    for (int64_t chunk : {1, 3, 200}) {
      std::vector<int> seen(count);
      pool.parallel_for(count, chunk, [&](int64_t begin, int64_t end, int) {
        EXPECT_LE(end - begin, chunk);
        for (int64_t i = begin; i < end; ++i) ++seen[i];
      });
      EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), int64_t{0}), count);
    }
  }
}

TEST_P(ThreadPoolTest, WakesAfterSleeping) {
  std::vector<int> runs(pool.num_threads());
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.run([&](int thread) { ++runs[thread]; });
  }
  EXPECT_EQ(runs, std::vector<int>(pool.num_threads(), 3));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolTest,
                         ::testing::Combine(::testing::Values(1, 2, 5), ::testing::Values(0, 50)));

TEST(ThreadPool, AnIdlePoolUsesNoCpu) {
  ThreadPool pool(3);
  pool.run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const clock_t before = clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(static_cast<double>(clock() - before) / CLOCKS_PER_SEC, 0.02);
}

TEST(Isa, NamesParseBackAndOthersAreRefused) {
  for (Isa isa : supported_isas()) {
    const auto parsed = parse_isa(to_string(isa));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, isa);
  }
  const auto unknown = parse_isa("sse9");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message().find("sse9"), std::string::npos);
}

TEST(Isa, TheFastestIsOneOfThisCpus) {
  const auto isas = supported_isas();
  for (DType dtype : {DType::kFloat32, DType::kBFloat16})
    EXPECT_NE(std::find(isas.begin(), isas.end(), fastest_isa(dtype)), isas.end());
}

}  // namespace
}  // namespace fasteep
