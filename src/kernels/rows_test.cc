#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/kernel_table.h"
#include "kernels/test_data.h"

namespace fasteep {
namespace {

nlohmann::json numerics(const char* key) {
  std::ifstream file(FASTEEP_SOURCE_DIR "/tests/kernels/numerics_vectors.json");
  return nlohmann::json::parse(file).at(key);
}

Rows one_row(const std::vector<float>& values) {
  Rows row(1, static_cast<int64_t>(values.size()));
  row.values = values;
  return row;
}

void expect_close(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-5 * std::abs(expected[i])) << "element " << i;
}

constexpr int kLengths[] = {1, 7, 8, 15, 16, 33, 100, 128};

class RowsTest : public ::testing::TestWithParam<Isa> {
 protected:
  ThreadPool pool{2};
  Kernels kernels{GetParam(), pool};
};

TEST_P(RowsTest, RmsNormOfTheVectors) {
  const auto v = numerics("rmsnorm");
  const Rows x = one_row(v["x_bf16"]);
  const std::vector<float> weight = v["weight_bf16"];
  Rows out(1, x.cols);
  kernels.rms_norm(x.span(), weight, v["eps"], DType::kFloat32, out.span());
  expect_close(out.values, v["fp32"]);
  kernels.rms_norm(x.span(), weight, v["eps"], DType::kBFloat16, out.span());
  EXPECT_EQ(out.values, v["bf16_round_then_weight"].get<std::vector<float>>());
}

TEST_P(RowsTest, RmsNormAgreesWithDoubleReference) {
  for (int n : kLengths) {
    Rows x = random_rows(5, n, 1);
    const Rows weight = random_rows(1, n, 2);
    const auto expected =
        reference::rms_norm(reference::widen(x.span()), weight.values, 1e-6, DType::kFloat32);
    kernels.rms_norm(x.span(), weight.values, 1e-6f, DType::kFloat32, x.span());  // in place
    expect_near(x, expected, [&](int64_t r, int64_t c) {
      return std::abs(expected.at(r, c)) * chain_tolerance(n / 16 + 10) + 1e-12;
    });
  }
}

TEST_P(RowsTest, RopeOfTheVectors) {
  const auto v = numerics("rope");
  Rows x = one_row(v["x"]);
  const int dim = static_cast<int>(x.cols);
  Rows cos(1, dim / 2), sin(1, dim / 2);
  for (int i = 0; i < dim / 2; ++i) {
    const double angle =
        v["position"].get<double>() * std::pow(v["theta"].get<double>(), -2.0 * i / dim);
    cos.values[i] = static_cast<float>(std::cos(angle));
    sin.values[i] = static_cast<float>(std::sin(angle));
  }
  kernels.rope(x.span(), dim, cos.span(), sin.span());
  expect_close(x.values, v["half_rotation"]);
}

TEST_P(RowsTest, RopeAgreesWithDoubleReference) {
  for (int head_dim : {2, 16, 24, 64, 72}) {
    Rows x = random_rows(3, 5 * head_dim, 3);
    const Rows cos = random_rows(3, head_dim / 2, 4), sin = random_rows(3, head_dim / 2, 5);
    const auto expected =
        reference::rope(reference::widen(x.span()), head_dim, reference::widen(cos.span()),
                        reference::widen(sin.span()));
    kernels.rope(x.span(), head_dim, cos.span(), sin.span());
    expect_near(x, expected, [](int64_t, int64_t) { return 100 * 0x1p-23; });  // products below 25
  }
}

TEST_P(RowsTest, RoutersOfTheVectors) {
  for (const auto& v : numerics("routers")) {
    const std::string name = v["name"];
    const bool plain = name.starts_with("softmax all, not normalised");
    if (!plain && !name.starts_with("softmax all, normalised") &&
        !name.starts_with("all logits negative"))
      continue;
    SCOPED_TRACE(name);
    const Rows logits = one_row(v["logits"]);
    const int k = v["k"];
    std::vector<int32_t> ids(k);
    Rows weights(1, k);
    ASSERT_TRUE(kernels.route_topk(logits.span(), k, !plain, {ids.data(), 1, k}, weights.span()));
    EXPECT_EQ(ids, v["ids"].get<std::vector<int32_t>>());
    expect_close(weights.values, v["weights"]);
  }
}

TEST_P(RowsTest, RouterBreaksTiesByLowestIndex) {
  const Rows logits = one_row({1, 3, 2, 3, 3, 2});
  std::vector<int32_t> ids(4);
  Rows weights(1, 4);
  ASSERT_TRUE(kernels.route_topk(logits.span(), 4, true, {ids.data(), 1, 4}, weights.span()));
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 3, 4, 2}));
}

TEST_P(RowsTest, RouterRefusesWhatIsNotFinite) {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    Rows logits = random_rows(3, 8, 6);
    logits.values[2 * 8 + 5] = bad;
    std::vector<int32_t> ids(6);
    Rows weights(3, 2);
    const auto result =
        kernels.route_topk(logits.span(), 2, true, {ids.data(), 3, 2}, weights.span());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(result.error().message().find("row 2"), std::string::npos)
        << result.error().message();
  }
}

TEST_P(RowsTest, SiluOfTheVectors) {
  const KernelTable& table = kernel_table(GetParam());
  const nlohmann::json activations = numerics("activations");
  for (const auto& pair : activations["silu"]) {
    std::vector<float> gate(16, pair[0]), up(16, 1.0f);
    table.silu_mul(gate.data(), up.data(), 16);
    EXPECT_NEAR(gate[3], pair[1].get<double>(), 1e-5 * std::abs(pair[1].get<double>()));
  }
}

// softmax of (0, x) is exp(x) / (1 + exp(x)): the exponential over its whole range.
TEST_P(RowsTest, SoftmaxIsRightFromDenormalsToZero) {
  const KernelTable& table = kernel_table(GetParam());
  for (double x = -110; x <= 0; x += 0.37) {
    const float in[] = {0, static_cast<float>(x)};
    float out[2];
    table.softmax_row(in, out, 2);
    const double e = std::exp(double{in[1]});
    EXPECT_NEAR(out[1], e / (1 + e), e * 4 * 0x1p-23 + 0x1p-149) << x;
  }
}

TEST_P(RowsTest, CombineAddsInOrder) {
  for (int n : kLengths) {
    Rows x = random_rows(3, n, 7);
    const Rows y = random_rows(6, n, 8), weights = random_rows(3, 2, 9);
    std::vector<const float*> outputs;
    for (int i = 0; i < 6; ++i) outputs.push_back(y.span().row(i).data());
    Rows expected = x;
    for (int r = 0; r < 3; ++r) {
      for (int i = 0; i < n; ++i) {
        const float first = std::fma(weights.values[2 * r], y.span().row(2 * r)[i], 0.0f);
        expected.span().row(r)[i] +=
            std::fma(weights.values[2 * r + 1], y.span().row(2 * r + 1)[i], first);
      }
    }
    kernels.combine(weights.span(), outputs, x.span());
    expect_same_bits(x.span(), expected.span(), fmt::format("length {}", n));
  }
}

TEST_P(RowsTest, RoundingIsNearestEvenAndKeepsNan) {
  Rows x = random_rows(2, 37, 10);
  const uint32_t special[] = {0x3f808000, 0x3f818000, 0x7f7fffff, 0xff800000,
                              0x7f800001, 0xffffffff, 1,          0x80007fff};
  for (size_t i = 0; i < std::size(special); ++i) x.values[i] = std::bit_cast<float>(special[i]);
  std::vector<BFloat16> out(2 * 37);
  kernels.round_rows(x.span(), DType::kBFloat16, reinterpret_cast<std::byte*>(out.data()));
  for (size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(out[i].bits, BFloat16(x.values[i]).bits) << "element " << i;
  std::vector<float> same(2 * 37);
  kernels.round_rows(x.span(), DType::kFloat32, reinterpret_cast<std::byte*>(same.data()));
  EXPECT_EQ(std::memcmp(same.data(), x.values.data(), sizeof(float) * same.size()), 0);
}

TEST_P(RowsTest, AddAddsRows) {
  for (int n : kLengths) {
    Rows x = random_rows(4, n, 11), expected = x;
    const Rows y = random_rows(4, n, 12);
    for (size_t i = 0; i < x.values.size(); ++i) expected.values[i] += y.values[i];
    kernels.add(y.span(), x.span());
    expect_same_bits(x.span(), expected.span(), fmt::format("length {}", n));
  }
}

// Norm, rope and router of one set against the plainest: bits, not tolerances.
TEST_P(RowsTest, EqualsThePortableSetToTheBit) {
  ThreadPool one(1);
  Kernels portable(Isa::kPortable, one);
  for (int n : {2, 18, 64, 130}) {
    const Rows x = random_rows(6, n, 13), weight = random_rows(1, n, 14),
               cos = random_rows(6, n / 2, 15);
    Rows a(6, n), b(6, n), c = x, d = x, wa(6, 2), wb(6, 2);
    for (DType round : {DType::kFloat32, DType::kBFloat16}) {
      kernels.rms_norm(x.span(), weight.values, 1e-5f, round, a.span());
      portable.rms_norm(x.span(), weight.values, 1e-5f, round, b.span());
      expect_same_bits(a.span(), b.span(), "rms_norm");
    }
    kernels.rope(c.span(), n, cos.span(), cos.span());
    portable.rope(d.span(), n, cos.span(), cos.span());
    expect_same_bits(c.span(), d.span(), "rope");
    std::vector<int32_t> ia(12), ib(12);
    ASSERT_TRUE(kernels.route_topk(x.span(), 2, true, {ia.data(), 6, 2}, wa.span()));
    ASSERT_TRUE(portable.route_topk(x.span(), 2, true, {ib.data(), 6, 2}, wb.span()));
    EXPECT_EQ(ia, ib);
    expect_same_bits(wa.span(), wb.span(), "router");
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, RowsTest, ::testing::ValuesIn(supported_isas()),
                         [](const auto& p) { return std::string(to_string(p.param)); });

}  // namespace
}  // namespace fasteep
