// Opening the CPU backend, its memory and its copies.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/backend/cpu.h"

namespace lily::cpu {
namespace {

BackendOptions with_threads(int threads) {
  BackendOptions options;
  options.threads = threads;
  return options;
}

TEST(CpuBackend, NamesTheInstructionSetThatIsUnknown) {
  const auto opened = open({.threads = 1, .isa = "mmx"});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(opened.error().message.find("'mmx'"), std::string::npos);
  EXPECT_NE(opened.error().message.find("portable"), std::string::npos);
}

// The other tests take whatever instruction sets the processor has; here those that it lacks are
// named.
class CpuInstructionSets : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Names, CpuInstructionSets,
                         ::testing::Values("avx512", "avx2", "neon-i8mm", "neon", "portable"));

TEST_P(CpuInstructionSets, AreUsedWhereTheyAreNamed) {
  const auto opened = open({.threads = 1, .isa = GetParam()});
  if (!opened.has_value()) GTEST_SKIP() << "not tested: " << opened.error().message;
  const auto all = supported_kernels();
  const auto found =
      std::find_if(all.begin(), all.end(), [](const Kernels* k) { return k->name == GetParam(); });
  ASSERT_NE(found, all.end());
  EXPECT_EQ((*opened)->info().description,
            std::string((*found)->title) + ", 1 thread, int8 activations");
}

TEST(CpuBackend, RefusesSillyNumbers) {
  EXPECT_EQ(open(with_threads(-1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(open(with_threads(100000)).error().code, ErrorCode::kInvalidArgument);
  auto& backend = cases::cpu_backend();
  EXPECT_EQ(backend.prepare(cases::pocket_spec(), 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(backend.prepare(cases::pocket_spec(), kMaxPassRows + 1).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(CpuBackend, DescribesItself) {
  const auto backend = open({.threads = 2, .isa = "portable"});
  ASSERT_TRUE(backend.has_value());
  EXPECT_EQ((*backend)->info().name, "cpu");
  EXPECT_EQ((*backend)->info().description, "portable, 2 threads, int8 activations");
  EXPECT_EQ((*backend)->info().layout, WeightLayout::kInterleaved16);
  EXPECT_EQ((*backend)->info().kv_element_bytes, 2);
}

TEST(CpuBackend, BuffersAreZeroAlignedAndOutliveTheBackend) {
  Buffer buffer;
  {
    auto backend = open(with_threads(1));
    auto allocated = (*backend)->allocate(std::size_t{5} << 20, "a test");
    ASSERT_TRUE(allocated.has_value());
    buffer = *allocated;
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.address()) % 64, 0u);
  EXPECT_EQ(
      std::accumulate(buffer.as<unsigned char>(), buffer.as<unsigned char>() + buffer.bytes(), 0),
      0);
}

TEST(CpuBackend, AnAllocationThatCannotBeNamesItself) {
  const auto failed = cases::cpu_backend().allocate(std::size_t{1} << 60, "the moon");
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kNoMemory);
  EXPECT_NE(failed.error().message.find("the moon"), std::string::npos);
}

TEST(CpuBackend, AdoptsAlignedBytesOnly) {
  alignas(64) static std::byte bytes[128] = {};
  auto& backend = cases::cpu_backend();
  EXPECT_EQ(backend.adopt(bytes, nullptr)->address(), bytes);
  EXPECT_EQ(backend.adopt(std::span(bytes).subspan(8), nullptr).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(CpuBackend, CopiesEveryByteOnce) {
  auto& backend = cases::cpu_backend();
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, (std::size_t{1} << 18) + 3, std::size_t{3} << 20}) {
    const Buffer from = *backend.allocate(n + 1, "a test"), to = *backend.allocate(n + 1, "a test");
    for (std::size_t i = 0; i < n; ++i)
      from.as<unsigned char>()[i] = static_cast<unsigned char>(i * 37 + 1);
    backend.copy(
        {.from = from.address(), .to = to.address(), .bytes = static_cast<std::int64_t>(n)});
    EXPECT_EQ(std::memcmp(from.address(), to.address(), n + 1), 0) << n;
  }
}

TEST(CpuBackend, WritesAndReadsPartsOfBuffers) {
  auto& backend = cases::cpu_backend();
  const Buffer buffer = *backend.allocate(100, "a test");
  const std::vector<std::byte> bytes(10, std::byte{7});
  backend.write(buffer, 90, bytes);
  std::vector<std::byte> back(11);
  ASSERT_TRUE(backend.read(buffer, 89, back).has_value());
  EXPECT_EQ(back[0], std::byte{0});
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), back.begin() + 1));
}

}  // namespace
}  // namespace lily::cpu
