// A decode step allocates nothing once warm: every allocation of this test program is counted.
#include <atomic>
#include <cstdlib>
#include <new>

#include "kernels/sampling.h"
#include "kernels/test_data.h"

// Inlined, the pair below looks to GCC like a mismatch of the two allocators.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace {
std::atomic<int64_t> allocations{0};
}

void* operator new(size_t size) {
  ++allocations;
  void* p = std::malloc(size);
  if (p == nullptr) std::abort();
  return p;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return operator new(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace fasteep {
namespace {

// One layer and a draw for two sequences, in the shapes of a small model.
class Step {
 public:
  explicit Step(int threads) : pool_(threads), kernels_(supported_isas().back(), pool_) {
    for (int i = 0; i < 4; ++i) blocks_.push_back(cache_.data() + i * kv_.layer_block_bytes());
    for (int i = 0; i < 4; ++i) {
      inputs_.push_back(wire_.data() + i / 2 * 2 * kHidden);
      outputs_.push_back(expert_rows_.span().row(i).data());
    }
    for (int i = 0; i < 2; ++i)
      sequences_.push_back({i, 1, 17, {blocks_.data() + 2 * i, size_t{2}}});
  }
  void run() {
    kernels_.rms_norm(x_.span(), weight_, 1e-6f, DType::kBFloat16, x_.span());
    kernels_.gemm(matrix_.view(), x_.span(), {}, q_.span());
    kernels_.kv_append(kv_, sequences_, k_.span(), k_.span());
    kernels_.attention(kv_, 4, 0.25f, sequences_, q_.span(), q_.span());
    ASSERT_TRUE(kernels_.route_topk(logits_.span(), 2, true, {ids_, 2, 2}, routes_.span()));
    kernels_.round_rows(x_.span(), DType::kBFloat16, wire_.data());
    const FfnGroup groups[] = {{experts_.data(), 0, 3}, {experts_.data(), 3, 1}};
    kernels_.grouped_ffn(ffn_, groups, inputs_, outputs_);
    kernels_.combine(routes_.span(), {outputs_.data(), 4}, x_.span());
    token_ = sample(logits_.values, 8, {.top_p = 0.9f, .top_k = 4, .seed = 1}, 3).token;
  }

 private:
  static constexpr int kHidden = 256;
  ThreadPool pool_;
  Kernels kernels_;
  KvShape kv_{DType::kBFloat16, 2, 64, 16};
  FfnShape ffn_{DType::kBFloat16, kHidden, 128};
  Bytes cache_{4 * kv_.layer_block_bytes()}, experts_{ffn_size_bytes(ffn_)}, wire_{4 * kHidden};
  Rows x_ = random_rows(2, kHidden, 1), q_{2, kHidden}, k_ = random_rows(2, 128, 2);
  Rows logits_ = random_rows(2, 8, 3), routes_{2, 2}, expert_rows_{4, kHidden};
  Packed matrix_{DType::kBFloat16, random_rows(kHidden, kHidden, 4)};
  std::vector<float> weight_ = std::vector<float>(kHidden, 1.0f);
  std::vector<std::byte*> blocks_;
  std::vector<AttentionSequence> sequences_;
  std::vector<const std::byte*> inputs_;
  std::vector<float*> outputs_;
  int32_t ids_[4];
  TokenId token_ = 0;
};

TEST(Allocation, AWarmStepAllocatesNothing) {
  for (int threads : {1, 3}) {  // whole experts, then split ones
    Step step(threads);
    for (int i = 0; i < 2; ++i) step.run();
    const int64_t before = allocations;
    for (int i = 0; i < 3; ++i) step.run();
    EXPECT_EQ(allocations - before, 0) << threads << " threads";
  }
}

}  // namespace
}  // namespace fasteep
