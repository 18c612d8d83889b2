// Recorded answers of another implementation, as tools/pocket/oracle.py writes them, read and checked.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "spec/model_spec.h"

namespace lily {

struct GoldenTop {
  std::vector<TokenId> ids;       // Most likely first, at least two.
  std::vector<double> log_probs;
};

struct GoldenRow {
  std::string name;
  std::vector<TokenId> ids;
  int first = 0;                       // Rows first .. ids.size() - 1 are recorded.
  std::vector<GoldenTop> tops = {};         // One a recorded row.
  std::vector<double> next_log_probs = {};  // Of ids[i + 1]; one fewer than recorded rows, or empty.
  std::vector<float> log_probs = {};        // [recorded rows, vocab_used], or empty.
  int prompt_length = -1;              // -1: not recorded.
  std::vector<TokenId> greedy = {};         // Continuation of the first prompt_length ids, or empty.
};

// `golden` ends in .json or .safetensors. kCorrupt names the row and the field.
Result<std::vector<GoldenRow>> read_golden(const Path& golden, int vocab_used);

}  // namespace lily
