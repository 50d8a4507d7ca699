#include "kernels/test_data.h"

namespace fasteep {
namespace {

// Experts of random weights, with the float32 originals kept for the reference.
struct Experts {
  Experts(FfnShape shape_, int count) : shape(shape_) {
    for (int e = 0; e < count; ++e) {
      const double in = 1 / std::sqrt(shape.hidden), out = 1 / std::sqrt(shape.intermediate);
      gate.push_back(
          rounded(random_rows(shape.intermediate, shape.hidden, 100 + e, in), shape.dtype));
      up.push_back(
          rounded(random_rows(shape.intermediate, shape.hidden, 200 + e, in), shape.dtype));
      down.push_back(
          rounded(random_rows(shape.hidden, shape.intermediate, 300 + e, out), shape.dtype));
      packed.emplace_back(ffn_size_bytes(shape));
      pack_ffn(shape, DType::kFloat32, bytes_of(gate[e].values), bytes_of(up[e].values),
               bytes_of(down[e].values), packed[e].data());
    }
  }
  FfnShape shape;
  std::vector<Rows> gate, up, down;
  std::vector<Bytes> packed;
};

// `counts[e]` entries for expert e; entries take rows of x in order.
Rows run_ffn(Kernels& kernels, Experts& experts, const std::vector<int>& counts, const Rows& x) {
  const FfnShape& shape = experts.shape;
  const size_t row_bytes = size_bytes(shape.dtype) * shape.hidden;
  Bytes wire(row_bytes * x.rows + 2);
  std::byte* first =
      wire.data() + (shape.dtype == DType::kBFloat16 ? 2 : 0);  // element-aligned only
  kernels.round_rows(x.span(), shape.dtype, first);
  std::vector<FfnGroup> groups;
  int entries = 0;
  for (size_t e = 0; e < counts.size(); ++e) {
    groups.push_back({experts.packed[e].data(), entries, counts[e]});
    entries += counts[e];
  }
  Rows y(entries, shape.hidden, NAN);
  std::vector<const std::byte*> inputs;
  std::vector<float*> outputs;
  for (int i = 0; i < entries; ++i) {
    inputs.push_back(first + row_bytes * i);
    outputs.push_back(y.span().row(i).data());
  }
  kernels.grouped_ffn(shape, groups, inputs, outputs);
  return y;
}

class GroupedFfnTest : public ::testing::TestWithParam<std::tuple<Isa, DType>> {
 protected:
  static Isa isa() { return std::get<0>(GetParam()); }
  static DType dtype() { return std::get<1>(GetParam()); }
};

double largest_abs(const reference::Matrix& m) {
  double largest = 0;
  for (double v : m.values) largest = std::max(largest, std::abs(v));
  return largest;
}

// The chains of gate and up, then of down; with bfloat16 a middle value may fall to the other side
// of a rounding boundary: half a unit of 2^-8 each, on at most sum |down| * |h|.
double ffn_tolerance(const FfnShape& shape, const reference::Matrix& down, double largest_middle) {
  double row_sum = 0;
  for (int64_t o = 0; o < down.rows; ++o) {
    double sum = 0;
    for (int64_t k = 0; k < down.cols; ++k) sum += std::abs(down.at(o, k));
    row_sum = std::max(row_sum, sum);
  }
  const double middle =
      shape.dtype == DType::kBFloat16 ? 0x1p-8 : 4 * chain_tolerance(shape.hidden);
  return row_sum * largest_middle * (middle + chain_tolerance(shape.intermediate));
}

TEST_P(GroupedFfnTest, AgreesWithDoubleReference) {
  ThreadPool pool(2);
  Kernels kernels(isa(), pool);
  for (const FfnShape& shape :
       {FfnShape{dtype(), 64, 32}, FfnShape{dtype(), 50, 33}, FfnShape{dtype(), 7, 70}}) {
    SCOPED_TRACE(fmt::format("hidden {} intermediate {}", shape.hidden, shape.intermediate));
    Experts experts(shape, 4);
    const std::vector<int> counts = {1, 0, 55, 3};
    const Rows x = rounded(random_rows(59, shape.hidden, 1), dtype());
    const Rows y = run_ffn(kernels, experts, counts, x);
    for (int64_t e = 0, first = 0; e < 4; first += counts[e], ++e) {
      if (counts[e] == 0) continue;
      Rows part(counts[e], shape.hidden);
      std::copy_n(y.span().row(first).data(), part.values.size(), part.values.data());
      const auto in = reference::widen(x.span().rows_at(first, counts[e]));
      const auto gate = reference::widen(experts.gate[e].span()),
                 up = reference::widen(experts.up[e].span());
      const auto down = reference::widen(experts.down[e].span());
      auto middle = reference::gemm(up, in, {});
      const auto g = reference::gemm(gate, in, {});
      for (size_t i = 0; i < middle.values.size(); ++i)
        middle.values[i] *= reference::silu(g.values[i]);
      const double tolerance = ffn_tolerance(shape, down, largest_abs(middle) + 1);
      expect_near(part, reference::ffn(gate, up, down, in, dtype()),
                  [tolerance](int64_t, int64_t) { return tolerance; });
    }
  }
}

TEST_P(GroupedFfnTest, EntryAloneHasTheBitsItHasInABatchOnAnyThreadCount) {
  const FfnShape shape{dtype(), 66, 40};
  Experts experts(shape, 5);
  const std::vector<int> counts = {2, 50, 0, 1, 7};
  const Rows x = random_rows(60, shape.hidden, 2);
  ThreadPool one(1);
  Kernels plain(isa(), one);
  const Rows expected = run_ffn(plain, experts, counts, x);
  for (int threads : {2, 3, 7}) {  // whole experts, then split ones
    ThreadPool pool(threads);
    Kernels kernels(isa(), pool);
    const Rows y = run_ffn(kernels, experts, counts, x);
    expect_same_bits(y.span(), expected.span(), fmt::format("{} threads", threads));
  }
  for (int64_t e = 0, entry = 0; e < 5; entry += counts[e], ++e) {
    if (counts[e] == 0) continue;
    std::vector<int> only(5, 0);
    only[e] = 1;
    Rows row(1, shape.hidden);
    std::copy_n(x.span().row(entry).data(), shape.hidden, row.values.data());
    const Rows alone = run_ffn(plain, experts, only, row);
    expect_same_bits(alone.span(), expected.row(entry), fmt::format("entry {}", entry));
  }
}

TEST_P(GroupedFfnTest, GarbageInOneEntryHarmsNoOther) {
  const FfnShape shape{dtype(), 32, 32};
  Experts experts(shape, 1);
  ThreadPool pool(1);
  Kernels kernels(isa(), pool);
  Rows x = random_rows(3, 32, 3);
  const Rows clean = run_ffn(kernels, experts, {3}, x);
  for (float& v : x.span().row(1)) v = std::numeric_limits<float>::infinity();
  x.values[33] = NAN;
  const Rows torn = run_ffn(kernels, experts, {3}, x);
  expect_same_bits(torn.row(0), clean.row(0), "before");
  expect_same_bits(torn.row(2), clean.row(2), "after");
}

TEST_P(GroupedFfnTest, NoEntriesIsNothing) {
  Experts experts({dtype(), 32, 32}, 2);
  ThreadPool pool(2);
  Kernels kernels(isa(), pool);
  EXPECT_EQ(run_ffn(kernels, experts, {0, 0}, Rows(0, 32)).rows, 0);
  EXPECT_EQ(run_ffn(kernels, experts, {}, Rows(0, 32)).rows, 0);
}

INSTANTIATE_TEST_SUITE_P(Isas, GroupedFfnTest,
                         ::testing::Combine(::testing::ValuesIn(supported_isas()),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& p) {
                           return name_of(std::get<0>(p.param), std::get<1>(p.param));
                         });

TEST(GroupedFfn, Float32ChainsAgreeToTheBitAcrossIsas) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Experts experts({dtype, 70, 45}, 3);
    const Rows x = random_rows(20, 70, 4);
    ThreadPool pool(1);
    Kernels portable(Isa::kPortable, pool);
    const Rows expected = run_ffn(portable, experts, {13, 6, 1}, x);
    for (Isa isa : float32_chain_isas()) {
      Kernels kernels(isa, pool);
      const Rows y = run_ffn(kernels, experts, {13, 6, 1}, x);
      expect_same_bits(y.span(), expected.span(), std::string(to_string(isa)));
    }
  }
}

}  // namespace
}  // namespace fasteep
