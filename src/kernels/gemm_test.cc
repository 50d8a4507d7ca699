#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "kernels/test_data.h"

namespace fasteep {
namespace {

struct Shape {
  int rows, inputs, outputs;
};
// No rows, one, every tile height, more than a block; k odd, short of a vector; outputs off a
// panel.
constexpr Shape kShapes[] = {{0, 8, 32},   {1, 1, 1},    {1, 64, 96},  {2, 7, 33},
                             {3, 33, 31},  {5, 16, 32},  {6, 100, 65}, {7, 129, 5},
                             {12, 48, 40}, {13, 50, 70}, {49, 17, 34}, {100, 40, 64}};

class GemmTest : public ::testing::TestWithParam<std::tuple<Isa, DType>> {};

TEST_P(GemmTest, AgreesWithDoubleReference) {
  const auto [isa, dtype] = GetParam();
  ThreadPool pool(2);
  Kernels kernels(isa, pool);
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(
        fmt::format("rows {} inputs {} outputs {}", shape.rows, shape.inputs, shape.outputs));
    const Rows x = random_rows(shape.rows, shape.inputs, 1);
    const Rows w = rounded(random_rows(shape.outputs, shape.inputs, 2), dtype);
    const Rows bias = random_rows(1, shape.outputs, 3);
    Packed packed(dtype, w);
    Rows y(shape.rows, shape.outputs, NAN);
    kernels.gemm(packed.view(), x.span(), bias.values, y.span());

    const auto wide_x = reference::widen(rounded(x, dtype).span());
    const auto wide_w = reference::widen(w.span());
    auto absolute = [](reference::Matrix m) {
      for (double& v : m.values) v = std::abs(v);
      return m;
    };
    const auto scale = reference::gemm(absolute(wide_w), absolute(wide_x), {});
    expect_near(y, reference::gemm(wide_w, wide_x, bias.values), [&](int64_t r, int64_t c) {
      return chain_tolerance(shape.inputs) * (scale.at(r, c) + std::abs(bias.values[c])) + 1e-30;
    });
  }
}

TEST_P(GemmTest, RowAloneHasTheBitsItHasInABatch) {
  const auto [isa, dtype] = GetParam();
  ThreadPool pool(1);
  Kernels kernels(isa, pool);
  for (int rows = 1; rows <= 60; rows += rows < 14 ? 1 : 23) {
    const Rows x = random_rows(rows, 77, 4);
    Packed packed(dtype, random_rows(70, 77, 5));
    Rows together(rows, 70), alone(1, 70);
    kernels.gemm(packed.view(), x.span(), {}, together.span());
    for (int r = 0; r < rows; ++r) {
      kernels.gemm(packed.view(), x.row(r), {}, alone.span());
      expect_same_bits(together.row(r), alone.span(), fmt::format("row {} of {}", r, rows));
    }
  }
}

TEST_P(GemmTest, ThreadCountDoesNotChangeBits) {
  const auto [isa, dtype] = GetParam();
  const Rows x = random_rows(53, 130, 6);
  Packed packed(dtype, random_rows(200, 130, 7));
  Rows expected(53, 200);
  ThreadPool one(1);
  Kernels(isa, one).gemm(packed.view(), x.span(), {}, expected.span());
  for (int threads : {2, 3}) {
    ThreadPool pool(threads);
    Rows y(53, 200);
    Kernels(isa, pool).gemm(packed.view(), x.span(), {}, y.span());
    expect_same_bits(y.span(), expected.span(), fmt::format("{} threads", threads));
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, GemmTest,
                         ::testing::Combine(::testing::ValuesIn(supported_isas()),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& p) {
                           return name_of(std::get<0>(p.param), std::get<1>(p.param));
                         });

RC_GTEST_PROP(Gemm, Float32ChainsAgreeToTheBitAcrossIsas, ()) {
  const int rows = *rc::gen::inRange(1, 20);
  const int inputs = *rc::gen::inRange(1, 90);
  const int outputs = *rc::gen::inRange(1, 70);
  const DType dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16);
  ThreadPool pool(1);
  const Rows x = random_rows(rows, inputs, 8);
  Packed packed(dtype, random_rows(outputs, inputs, 9));
  Rows expected(rows, outputs), y(rows, outputs);
  Kernels(Isa::kPortable, pool).gemm(packed.view(), x.span(), {}, expected.span());
  for (Isa isa : float32_chain_isas()) {
    Kernels(isa, pool).gemm(packed.view(), x.span(), {}, y.span());
    expect_same_bits(y.span(), expected.span(), std::string(to_string(isa)));
  }
  RC_ASSERT(!::testing::Test::HasFailure());
}

TEST(Gemm, RowsMayBeStrided) {
  ThreadPool pool(1);
  Kernels kernels(supported_isas().back(), pool);
  const Rows wide = random_rows(4, 50, 10);
  Packed packed(DType::kFloat32, random_rows(33, 20, 11));
  const Span2<const float> x(wide.values.data() + 5, 4, 20, 50);
  Rows dense(4, 20), expected(4, 33), y(4, 60, 7.0f);
  for (int r = 0; r < 4; ++r) std::copy_n(x.row(r).data(), 20, dense.span().row(r).data());
  kernels.gemm(packed.view(), dense.span(), {}, expected.span());
  kernels.gemm(packed.view(), x, {}, Span2<float>(y.values.data(), 4, 33, 60));
  expect_same_bits(Span2<const float>(y.values.data(), 4, 33, 60), expected.span(), "strided");
  EXPECT_EQ(y.values[33], 7.0f);  // beyond the outputs nothing is written
}

}  // namespace
}  // namespace fasteep
