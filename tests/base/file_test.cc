// Files: readers see the old or the new contents; every failure says what was being done and why.
#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

namespace lily {
namespace {

using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  FileTest() : folder_(Path(::testing::TempDir()) / ("lily_file_test." + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  Path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  static std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

  Path folder_;
};

TEST_F(FileTest, MapsAWholeFileAndAnEmptyOne) {
  const auto mapped = MappedFile::open(write("a", "hello"));
  ASSERT_TRUE(mapped.has_value());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapped->bytes().data()), 5), "hello");
  const auto empty = MappedFile::open(write("b", ""));
  ASSERT_TRUE(empty.has_value());
  EXPECT_TRUE(empty->bytes().empty());
}

TEST_F(FileTest, AMissingFileAndAFolderAreNamed) {
  const auto missing = MappedFile::open(folder_ / "nothing");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("nothing"));
  const auto folder = read_file(folder_, 100);
  ASSERT_FALSE(folder.has_value());
  EXPECT_THAT(folder.error().message, HasSubstr("not a regular file"));
}

TEST_F(FileTest, ReadingStopsAtItsBound) {
  const auto path = write("a", "123456");
  EXPECT_EQ(read_file(path, 6).value(), "123456");
  const auto over = read_file(path, 5);
  ASSERT_FALSE(over.has_value());
  EXPECT_EQ(over.error().code, ErrorCode::kTooLarge);
}

TEST_F(FileTest, WhatTheKernelCallsEmptyIsReadToItsEnd) {
  const Path status = "/proc/self/status";  // Reported with 0 bytes, as every file of /proc is.
  if (!std::filesystem::exists(status)) GTEST_SKIP() << "no /proc on this system";
  EXPECT_THAT(read_file(status, 1 << 20).value(), HasSubstr("VmSize"));
  EXPECT_EQ(read_file(status, 10).error().code, ErrorCode::kTooLarge);
}

TEST_F(FileTest, TheOldContentsStayUntilCommit) {
  const auto path = write("a", "old");
  auto file = AtomicFile::create(path);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->append(bytes("new!")).has_value());
  EXPECT_EQ(read_file(path, 10).value(), "old");
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_EQ(read_file(path, 10).value(), "new!");
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));
}

TEST_F(FileTest, AnAbandonedFileLeavesNothingUnlessKept) {
  const auto path = folder_ / "a";
  { ASSERT_TRUE(AtomicFile::create(path)->append(bytes("x")).has_value()); }
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));
  {
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file->append(bytes("begun")).has_value());
    file->keep();
  }
  auto again = AtomicFile::create(path, /*keep_partial=*/true);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->size(), 5u);
}

TEST_F(FileTest, AFullDiskIsNoSpace) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 10, .rlim_max = old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  auto file = AtomicFile::create(folder_ / "a");
  const auto written = file->append(bytes("more than ten bytes"));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kNoSpace);
  EXPECT_THAT(written.error().message, HasSubstr("a.part"));
}

TEST_F(FileTest, APipeIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(read_file(folder_ / "pipe", 100).error().message, HasSubstr("not a regular file"));
  EXPECT_THAT(MappedFile::open(folder_ / "pipe").error().message, HasSubstr("not a regular file"));
}

TEST_F(FileTest, ALinkInPlaceOfThePartialFileIsNotFollowed) {
  const auto victim = write("victim", "precious");
  std::filesystem::create_symlink(victim, folder_ / "a.part");
  EXPECT_FALSE(AtomicFile::create(folder_ / "a").has_value());
  EXPECT_EQ(read_file(victim, 100).value(), "precious");
}

TEST_F(FileTest, AFolderThatIsNotThereIsNamed) {
  const auto file = AtomicFile::create(folder_ / "no" / "a");
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lily
