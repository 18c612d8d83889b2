// Limits of control groups, read from a made-up tree: both versions, the group itself and those above it.
#include "base/control_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace lily {
namespace {

class ControlGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "lily_groups_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    places_ = {.membership = folder_ / "self", .mounted = folder_ / "groups"};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const Path& path, const std::string& text) {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }

  Path folder_;
  ControlGroupPlaces places_;
};

TEST_F(ControlGroup, OfVersion2TheSmallestOnTheWayUpCounts) {
  write("self", "0::/user/lily\n");
  write("groups/user/lily/memory.max", "max\n");
  write("groups/user/lily/cpu.max", "max 100000\n");
  EXPECT_EQ(control_group_memory(places_), 0u);
  EXPECT_EQ(control_group_cpus(places_), 0.0);
  write("groups/user/memory.max", "3000000000\n");
  write("groups/user/cpu.max", "250000 100000\n");
  write("groups/other/memory.max", "5\n");
  EXPECT_EQ(control_group_memory(places_), 3'000'000'000u);
  EXPECT_EQ(control_group_cpus(places_), 2.5);
  write("groups/user/lily/memory.max", "1000000000\n");
  write("groups/user/lily/cpu.max", "50000 100000\n");
  EXPECT_EQ(control_group_memory(places_), 1'000'000'000u);
  EXPECT_EQ(control_group_cpus(places_), 0.5);
}

TEST_F(ControlGroup, OfVersion1TheControllersOwnTreeCounts) {
  write("self", "4:memory:/api/7\n2:cpu,cpuacct:/api\n1:pids:/\n0::/\n");
  write("groups/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("groups/memory/api/7/memory.limit_in_bytes", "2000000000\n");
  write("groups/cpu/api/cpu.cfs_quota_us", "-1\n");
  write("groups/cpu/api/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(control_group_memory(places_), 2'000'000'000u);
  EXPECT_EQ(control_group_cpus(places_), 0.0);
  write("groups/cpu/cpu.cfs_quota_us", "300000\n");
  write("groups/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(control_group_cpus(places_), 3.0);
}

TEST_F(ControlGroup, APathOutsideTheContainerLeavesItsRoot) {
  write("self", "0::/../../docker/abc\n");
  write("groups/memory.max", "700000000\n");
  EXPECT_EQ(control_group_memory(places_), 700'000'000u);
  std::filesystem::remove(folder_ / "self");
  EXPECT_EQ(control_group_memory(places_), 700'000'000u);
}

TEST_F(ControlGroup, WhatIsNotANumberIsNoLimit) {
  write("self", "nonsense\n0::/\n::\n");
  write("groups/memory.max", "-5 many\n");
  write("groups/cpu.max", "1\n");
  EXPECT_EQ(control_group_memory(places_), 0u);
  EXPECT_EQ(control_group_cpus(places_), 0.0);
}

}  // namespace
}  // namespace lily
