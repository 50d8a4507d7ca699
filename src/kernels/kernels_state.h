#pragma once
// What the parts of Kernels (kernels.cc, grouped_ffn.cc, paged_attention.cc) share.
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

// A block of work of a grouped FFN: some panels of one group.
struct FfnItem {
  int group, first_panel, num_panels;
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
  std::vector<FfnItem> items;

  // Calls body(begin, end, thread) over [0, count), on the calling thread alone while the work is
  // too small for waking others to pay. `cost` per item in units of about a nanosecond.
  void spread(int64_t count, double cost,
              const std::function<void(int64_t begin, int64_t end, int thread)>& body);
};

}  // namespace fasteep
