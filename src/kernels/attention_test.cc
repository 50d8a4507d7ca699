#include "kernels/test_data.h"

namespace fasteep {
namespace {

// One sequence's cache in scattered blocks that start out full of NaN.
class Cache {
 public:
  Cache(const KvShape& shape, int positions) : shape_(shape) {
    const int count = (positions + shape.block_tokens - 1) / shape.block_tokens;
    for (int i = 0; i < count; ++i) {
      storage_.emplace_back(shape.layer_block_bytes());
      std::memset(storage_.back().data(), 0xff, shape.layer_block_bytes());
    }
    for (int i = count - 1; i >= 0; --i) blocks_.push_back(storage_[i].data());
  }
  AttentionSequence rows(int first_row, int num_rows, int first_position) {
    return {first_row, num_rows, first_position, blocks_};
  }
  const std::byte* block(int i) const { return blocks_[i]; }

 private:
  KvShape shape_;
  std::vector<Bytes> storage_;
  std::vector<std::byte*> blocks_;
};

struct Problem {
  KvShape shape;
  int heads, positions;
  Rows q, k, v;
  Problem(DType dtype, int kv_heads, int group, int head_dim, int block_tokens, int positions_)
      : shape{dtype, kv_heads, head_dim, block_tokens},
        heads(kv_heads * group),
        positions(positions_),
        q(random_rows(positions, int64_t{heads} * head_dim, 1)),
        k(random_rows(positions, int64_t{kv_heads} * head_dim, 2)),
        v(random_rows(positions, int64_t{kv_heads} * head_dim, 3)) {}
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape.head_dim)); }
};

// Rows [first, first + count) appended and attended to in one call.
void step(Kernels& kernels, const Problem& p, Cache& cache, int first, int count, Rows& out) {
  const AttentionSequence sequence = cache.rows(0, count, first);
  kernels.kv_append(p.shape, {&sequence, 1}, p.k.span().rows_at(first, count),
                    p.v.span().rows_at(first, count));
  kernels.attention(p.shape, p.heads, p.scale(), {&sequence, 1}, p.q.span().rows_at(first, count),
                    out.span().rows_at(first, count));
}

Rows in_chunks(Isa isa, int threads, const Problem& p, int chunk) {
  ThreadPool pool(threads);
  Kernels kernels(isa, pool);
  Cache cache(p.shape, p.positions);
  Rows out(p.positions, p.q.cols, NAN);
  for (int first = 0; first < p.positions; first += chunk)
    step(kernels, p, cache, first, std::min(chunk, p.positions - first), out);
  return out;
}

class AttentionTest : public ::testing::TestWithParam<std::tuple<Isa, DType>> {
 protected:
  static Isa isa() { return std::get<0>(GetParam()); }
  static DType dtype() { return std::get<1>(GetParam()); }
};

TEST_P(AttentionTest, AgreesWithDoubleReference) {
  for (const Problem& p :
       {Problem(dtype(), 2, 4, 64, 16, 70), Problem(dtype(), 1, 1, 8, 32, 33),
        Problem(dtype(), 3, 3, 20, 16, 17), Problem(dtype(), 1, 16, 32, 48, 1)}) {
    const Rows out = in_chunks(isa(), 2, p, p.positions);
    const auto k = rounded(p.k, dtype()), v = rounded(p.v, dtype());
    const auto expected = reference::attention(
        reference::widen(p.q.span()), reference::widen(k.span()), reference::widen(v.span()),
        p.heads, p.shape.kv_heads, p.shape.head_dim, p.scale());
    // Scores are chains over head_dim of values of about one: their error moves every weight by as
    // much; then a chain over the positions of values below five.
    const double score = chain_tolerance(p.shape.head_dim) * p.shape.head_dim * 5;
    const double tolerance = 5 * (score + chain_tolerance(p.positions + 16));
    expect_near(out, expected, [tolerance](int64_t, int64_t) { return tolerance; });
  }
}

TEST_P(AttentionTest, ChunksAndDecodeHaveTheBitsOfOneGo) {
  const Problem p(dtype(), 2, 3, 24, 32, 83);
  const Rows expected = in_chunks(isa(), 1, p, p.positions);
  for (int chunk : {1, 5, 16, 40}) {
    const Rows out = in_chunks(isa(), 1 + chunk % 3, p, chunk);
    expect_same_bits(out.span(), expected.span(), fmt::format("chunks of {}", chunk));
  }
}

TEST_P(AttentionTest, SequencesOfABatchDoNotMeet) {
  const Problem a(dtype(), 2, 2, 16, 16, 30), b(dtype(), 2, 2, 16, 16, 50);
  ThreadPool pool(3);
  Kernels kernels(isa(), pool);
  Cache cache_a(a.shape, 30), cache_b(b.shape, 50);
  Rows k(80, a.k.cols), v(80, a.v.cols), q(80, a.q.cols), out(80, a.q.cols, NAN);
  const auto fill = [](Rows& to, const Rows& first, const Rows& second) {
    std::copy(first.values.begin(), first.values.end(), to.values.begin());
    std::copy(second.values.begin(), second.values.end(), to.values.begin() + first.values.size());
  };
  fill(k, a.k, b.k), fill(v, a.v, b.v), fill(q, a.q, b.q);
  const AttentionSequence sequences[] = {cache_a.rows(0, 30, 0), cache_b.rows(30, 50, 0)};
  kernels.kv_append(a.shape, sequences, k.span(), v.span());
  kernels.attention(a.shape, a.heads, a.scale(), sequences, q.span(), out.span());
  const Rows alone_a = in_chunks(isa(), 1, a, 30), alone_b = in_chunks(isa(), 1, b, 50);
  expect_same_bits(out.span().rows_at(0, 30), alone_a.span(), "first sequence");
  expect_same_bits(out.span().rows_at(30, 50), alone_b.span(), "second sequence");
}

TEST_P(AttentionTest, PositionKeepsItsBytesWhateverComesLater) {
  const Problem p(dtype(), 2, 1, 16, 16, 16);
  ThreadPool pool(1);
  Kernels kernels(isa(), pool);
  Cache whole(p.shape, 16), parts(p.shape, 16);
  Rows out(16, p.q.cols);
  step(kernels, p, whole, 0, 16, out);
  for (int first = 0; first < 16; first += 3)
    step(kernels, p, parts, first, std::min(3, 16 - first), out);
  EXPECT_EQ(std::memcmp(whole.block(0), parts.block(0), p.shape.layer_block_bytes()), 0);
}

INSTANTIATE_TEST_SUITE_P(Isas, AttentionTest,
                         ::testing::Combine(::testing::ValuesIn(supported_isas()),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& p) {
                           return name_of(std::get<0>(p.param), std::get<1>(p.param));
                         });

TEST(Attention, AllIsasAgreeToTheBit) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Problem p(dtype, 2, 5, 40, 16, 75);
    const Rows expected = in_chunks(Isa::kPortable, 1, p, p.positions);
    for (Isa isa : supported_isas()) {
      const Rows out = in_chunks(isa, 1, p, p.positions);
      expect_same_bits(out.span(), expected.span(), std::string(to_string(isa)));
    }
  }
}

}  // namespace
}  // namespace fasteep
