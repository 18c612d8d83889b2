// The 16-row records against the definition in spec/layout.h, for odd row counts and both widths.
#include "weights/interleave.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "spec/layout.h"
#include "tests/weights/support.h"
#include "weights/floats.h"

namespace lily::test {
namespace {

struct Matrix {
  std::vector<std::byte> codes, scales, biases;
};

Matrix random_matrix(std::size_t rows, std::size_t cols, int bits) {
  Matrix m;
  m.codes = *rc::gen::container<std::vector<std::byte>>(rows * cols * static_cast<std::size_t>(bits) / 8,
                                                        rc::gen::cast<std::byte>(rc::gen::arbitrary<unsigned char>()));
  for (auto* side : {&m.scales, &m.biases}) {
    side->resize(rows * cols / kQuantGroup * 2);
    for (std::size_t i = 0; i < side->size(); i += 2) {
      const auto value = static_cast<std::uint16_t>(*rc::gen::inRange(0x3c00, 0x4000));
      std::memcpy(side->data() + i, &value, 2);
    }
  }
  return m;
}

int source_code(const Matrix& m, std::size_t index, int bits) {
  if (bits == 8) return std::to_integer<int>(m.codes[index]);
  return std::to_integer<int>(m.codes[index / 2] >> (index % 2 ? 4 : 0)) & 15;
}

RC_GTEST_PROP(Interleave, PutsEveryCodeWhereTheLayoutSays, ()) {
  const auto rows = *rc::gen::element<std::size_t>(1, 7, 8, 15, 16);
  const auto cols = *rc::gen::element<std::size_t>(64, 128, 192);
  const int bits = *rc::gen::element(4, 8);
  const Matrix m = random_matrix(rows, cols, bits);
  std::vector<std::byte> out(cols / kQuantGroup * record_bytes(bits), std::byte{0xee});
  interleave_block({m.codes.data(), m.scales.data(), m.biases.data(), rows, cols, bits}, out.data());
  const TensorView view{out.data(), 16, static_cast<std::int64_t>(cols), bits, out.size()};
  const auto scales = to_floats(m.scales, "BF16"), biases = to_floats(m.biases, "BF16");
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t col = 0; col < cols; ++col) {
      const std::size_t side = row * cols / 64 + col / 64;
      const double expected =
          row < rows ? double{scales[side]} * source_code(m, row * cols + col, bits) + double{biases[side]} : 0.0;
      RC_ASSERT(image_weight(view, WeightLayout::kInterleaved16, static_cast<std::int64_t>(row),
                             static_cast<std::int64_t>(col)) == expected);
    }
  }
}

TEST(Interleave, FindsTheFirstValueThatIsNotFinite) {
  std::vector<std::uint16_t> values(10000, 0x3f80);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  EXPECT_EQ(first_not_finite(bytes, values.size()), -1);
  values[9001] = 0xff80;
  EXPECT_EQ(first_not_finite(bytes, values.size()), 9001);
  values[17] = 0x7fc1;
  EXPECT_EQ(first_not_finite(bytes, values.size()), 17);
  EXPECT_EQ(first_not_finite(bytes, 17), -1);
}

TEST(Floats, WidenExactly) {
  const std::uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x8000, 0x0400};
  const auto wide = to_floats(std::as_bytes(std::span(halves)), "F16");
  EXPECT_EQ(wide, (std::vector<float>{1.0f, -2.0f, 0x1p-24f, 65504.0f, -0.0f, 0x1p-14f}));
  const std::uint16_t brains[] = {0x3f80, 0xbf00};
  EXPECT_EQ(to_floats(std::as_bytes(std::span(brains)), "BF16"), (std::vector<float>{1.0f, -0.5f}));
  const float plain[] = {3.25f};
  EXPECT_EQ(to_floats(std::as_bytes(std::span(plain)), "F32"), std::vector<float>{3.25f});
}

}  // namespace
}  // namespace lily::test
