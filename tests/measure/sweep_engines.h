// Engines for tests of sweeps: shell scripts that speak the protocol, well or badly.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/file.h"

namespace lily {

// A folder of the test's own, empty at the start.
inline Path fresh_folder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const Path folder =
      Path(testing::TempDir()) / (std::string(test->test_suite_name()) + "." + test->name());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

inline constexpr const char* kHello =
    R"(echo '{"engine": "fake", "version": "1", "model": "m", "context": 1000}'; )";

// The command of an engine that does `script` after it said hello.
inline std::string engine_that(const Path& folder, const std::string& name,
                               const std::string& script) {
  const Path file = folder / (name + ".sh");
  std::ofstream(file) << kHello << script << "\n";
  return "sh " + file.string();
}

// Answers everything at once, and writes down each request in a file of its name.
inline std::string good_engine(const Path& folder, const std::string& name) {
  return engine_that(folder, name,
                     "while read -r line; do echo \"$line\" >> " +
                         (folder / (name + ".asked")).string() +
                         R"(; echo '{"seconds": 0.00001}'; done)");
}

}  // namespace lily
