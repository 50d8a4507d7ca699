#include "kernels/test_data.h"

namespace fasteep {
namespace {

// Reads element (o, k) back from the packed bytes, by the layout that the header describes.
float element(DType dtype, int inputs, const std::byte* data, int o, int k) {
  const int panel = o / kPanelWidth, lane = o % kPanelWidth;
  if (dtype == DType::kFloat32) {
    float x;
    std::memcpy(&x, data + 4 * ((size_t(panel) * inputs + k) * kPanelWidth + lane), 4);
    return x;
  }
  const int pairs = (inputs + 1) / 2;
  BFloat16 x;
  std::memcpy(&x, data + 2 * (((size_t(panel) * pairs + k / 2) * kPanelWidth + lane) * 2 + k % 2),
              2);
  return static_cast<float>(x);
}

class PackTest : public ::testing::TestWithParam<std::tuple<DType, DType>> {};

TEST_P(PackTest, EveryElementArrivesAndPadsAreZero) {
  const auto [to, from] = GetParam();
  for (auto [outputs, inputs] : {std::pair{32, 64}, {33, 7}, {5, 1}, {70, 34}}) {
    Rows w = random_rows(outputs, inputs, 1);
    std::vector<BFloat16> narrow;
    if (from == DType::kBFloat16) {
      w = rounded(w, from);
      for (float x : w.values) narrow.emplace_back(x);
    }
    const auto* source = from == DType::kBFloat16
                             ? reinterpret_cast<const std::byte*>(narrow.data())
                             : bytes_of(w.values);
    Bytes packed(packed_size_bytes(to, outputs, inputs));
    EXPECT_EQ(packed.size() % kPackAlignment, 0u);
    std::memset(packed.data(), 0xff, packed.size());
    pack_begin(to, outputs, inputs, packed.data());
    // In two parts, the later rows first.
    const int cut = outputs / 3;
    pack_rows(to, outputs, inputs, cut, outputs - cut, from,
              source + size_bytes(from) * cut * inputs, packed.data());
    pack_rows(to, outputs, inputs, 0, cut, from, source, packed.data());
    for (int o = 0; o < outputs; ++o)
      for (int k = 0; k < inputs; ++k)
        ASSERT_EQ(element(to, inputs, packed.data(), o, k), rounded(w.span().row(o)[k], to))
            << o << " " << k;
    if (to == DType::kBFloat16 && inputs % 2 != 0) {
      EXPECT_EQ(element(to, inputs + 1, packed.data(), outputs - 1, inputs), 0.0f);
    }
    if (outputs % kPanelWidth != 0) {
      EXPECT_EQ(element(to, inputs, packed.data(), outputs, inputs - 1), 0.0f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PackTest,
                         ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& p) {
                           return std::string(to_string(std::get<1>(p.param))) + "_to_" +
                                  std::string(to_string(std::get<0>(p.param)));
                         });

}  // namespace
}  // namespace fasteep
