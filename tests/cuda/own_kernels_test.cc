// Hopper's own kernels: passes of both models use every one of them, and on a card they say what the shared ones say.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/gpu/cuda/lowering.h"
#include "backend/backends.h"
#include "base/random.h"
#include "tests/engine/pocket.h"
#include "tests/model/paper_model.h"
#include "weights/synth.h"

namespace lily::gpu::cuda {
namespace {

std::set<std::string> own_kernels_of_passes() {
  std::set<std::string> used;
  for (const char* spec : {"35b", "pocket"}) {
    PaperModel model({}, spec);
    for (const auto use : {HeadUse::Kind::kChoose, HeadUse::Kind::kScore}) {
      for (const int rows : {1, 8, 512}) {
        for (const Node& node : lower(model.record(rows, use), {.multiprocessors = 132, .narrow = nullptr})) {
          if (!node.own.empty()) used.emplace(node.own);
        }
      }
    }
  }
  return used;
}

TEST(OwnKernels, EachIsUsedByAPassOfOneOfTheModels) {
  std::set<std::string> all;
  for (const OwnKernel& kernel : own_kernels()) all.emplace(kernel.name);
  all.erase("linear_int8_norm_1");  // For widths between those two.
  EXPECT_EQ(own_kernels_of_passes(), all);
}

// A few layers of random weights at a model's widths, in a folder of the test's.
class Synthetic {
 public:
  explicit Synthetic(const std::string& spec) : folder_(Path(::testing::TempDir()) / ("lily_own_kernels_" + spec)) {
    std::filesystem::remove_all(folder_);
    const auto written = write_synthetic_checkpoint(
        {.spec = spec, .layers = 4, .out = folder_, .tokenizer_folder = pocket_folder()});
    EXPECT_TRUE(written.has_value()) << written.error().message;
  }
  ~Synthetic() { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Engine> on_card(int chunk, bool own) const {
    auto options = options_on("cuda", chunk);
    options.backend_options.mechanisms = default_mechanisms("cuda");
    options.backend_options.mechanisms->own_kernels = own;
    return open_or_fail(options);
  }
  std::unique_ptr<Engine> exact(int chunk) const {
    auto options = options_on("cpu", chunk);
    options.backend_options.activations = Activations::kF32;
    return open_or_fail(options);
  }

 private:
  EngineOptions options_on(const char* backend, int chunk) const {
    auto options = pocket_options(backend);
    options.model = folder_;
    options.chunk_tokens = chunk;
    options.context_tokens = 2048;
    return options;
  }

  Path folder_;
};

std::vector<TokenId> some_tokens(const Engine& engine, int n) {
  std::vector<TokenId> out;
  for (int i = 0; i < n; ++i) {
    const float draw = uniform_draw(7, static_cast<std::uint64_t>(i));
    out.push_back(static_cast<TokenId>(draw * static_cast<float>(engine.tokenizer().n_ids())));
  }
  return out;
}

std::vector<float> log_probs(Engine& engine, int n_tokens) {
  const auto ids = some_tokens(engine, n_tokens);
  const auto rows = engine.score({.ids = ids});
  EXPECT_TRUE(rows.has_value()) << rows.error().message;
  std::vector<float> out;
  for (const ScoredRow& row : *rows) out.push_back(row.next_log_prob);
  return out;
}

// Ascending.
std::vector<double> differences(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  std::vector<double> out;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) out.push_back(std::abs(double{a[i]} - double{b[i]}));
  std::sort(out.begin(), out.end());
  return out;
}

// Passes of one row, of eight, of many, at the widths that kernels are made for. Random weights leave a row two experts that are nearly
// as good now and then, and roundings decide; so the measure is what the shared kernels differ by from exact passes (docs/NUMERICS.md).
TEST(OwnKernels, AreAsNearToExactPassesAsTheSharedOnes) {
  if (const auto card = open_backend("cuda", {}); !card) GTEST_SKIP() << "no CUDA here: " << card.error().message;
  for (const char* spec : {"pocket", "35b"}) {
    const Synthetic model(spec);
    for (const auto& [chunk, n_tokens] : {std::pair{1, 100}, std::pair{8, 400}, std::pair{512, 1300}}) {
      const auto exact = log_probs(*model.exact(512), n_tokens);
      const auto own = differences(log_probs(*model.on_card(chunk, true), n_tokens), exact);
      const auto shared = differences(log_probs(*model.on_card(chunk, false), n_tokens), exact);
      const std::size_t middle = exact.size() / 2, most = exact.size() * 9 / 10;
      std::cout << spec << ", passes of " << chunk << ": log-probabilities off by " << own[middle] << " in the middle and " << own[most]
                << " in nine of ten; of the shared kernels " << shared[middle] << " and " << shared[most] << "\n";
      EXPECT_LE(own[middle], 1.25 * shared[middle] + 5e-4) << spec << ", passes of " << chunk;
      EXPECT_LE(own[most], 1.25 * shared[most] + 2e-3) << spec << ", passes of " << chunk;
    }
  }
}

}  // namespace
}  // namespace lily::gpu::cuda
