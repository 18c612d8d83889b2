// A question with a recorded answer, asked of every backend: does this build compute what it should
// on this machine?
#pragma once

#include <string>
#include <vector>

namespace lily::cli {

struct SelfTestRow {
  std::string backend;
  bool passed = false;
  std::string detail;  // The answer, or what went wrong.
};

// Of the backends that open here.
std::vector<SelfTestRow> run_self_test();

}  // namespace lily::cli
