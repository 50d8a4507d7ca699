#pragma once
// What the parts of Kernels (kernels.cc, grouped_ffn.cc, paged_attention.cc) share.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/kernels.h"

namespace fasteep {

// Memory that grows to the largest request and is then reused: a step allocates nothing once warm.
class Scratch {
 public:
  std::byte* at_least(size_t bytes) {
    if (bytes > size_) grow(bytes);
    return data_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  void grow(size_t bytes) {
    const size_t rounded = (bytes + bytes / 4 + kPackAlignment) / kPackAlignment * kPackAlignment;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPackAlignment, rounded)));
    CHECK(data_ != nullptr, "{} bytes of kernel scratch", rounded);
    size_ = rounded;
  }
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

// A block of rows of one sequence, for attention.
struct AttentionBlock {
  int sequence, first_row, num_rows;  // first_row: within the sequence
};

struct Kernels::State {
  State(Isa isa_, ThreadPool& pool_) : isa(isa_), table(kernel_table(isa_)), pool(pool_) {
    per_thread.resize(pool.num_threads());
  }
  Isa isa;
  const KernelTable& table;
  ThreadPool& pool;
  Scratch inputs, middle;  // prepared rows of a call; its rows between gate/up and down
  std::vector<Scratch> per_thread;
  std::vector<AttentionBlock> attention_blocks;
  std::vector<int> order;     // groups, most work first
  std::vector<double> loads;  // per thread

  // Calls body(begin, end, thread) over [0, count) in chunks of at least `min_chunk`, on the
  // calling thread alone while the work is too small for waking others to pay. `cost`: of one item,
  // in units of about a nanosecond.
  void spread(int64_t count, double cost, FunctionRef<void(int64_t, int64_t, int)> body,
              int64_t min_chunk = 1);

  // Items of `bytes` each that make a run long enough for a thread to stream at full bandwidth, but
  // no more than its share of `count`.
  int64_t streaming_chunk(int64_t count, size_t bytes) const {
    constexpr size_t kRunBytes = size_t{1} << 20;
    const auto long_enough = static_cast<int64_t>((kRunBytes + bytes - 1) / bytes);
    const int64_t share = (count + pool.num_threads() - 1) / pool.num_threads();
    return std::max<int64_t>(1, std::min(long_enough, share));
  }
};

}  // namespace fasteep
