// What a program's launches become on a card: nodes of a graph. Most are the launch itself; for
// those of few rows Hopper has kernels of its own (cuda/kernels), some of which do the work of
// several launches.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "backend/args.h"
#include "backend/gpu/program.h"

namespace lily::gpu::cuda {

struct Node {
  std::string_view own;  // A kernel of cuda/kernels; empty: `shared`.
  const Kernel* shared = nullptr;
  std::vector<std::byte> args;
  Grid grid;
  unsigned threads = 0, shared_bytes = 0;
  bool waits = false;  // Fetches ahead of what it depends on, and waits for that itself.
  bool barrier_before = false;
  std::size_t first = 0,
              n_launches = 0;  // Whose work it does; none: it prepares what another needs.
};

// A kernel of cuda/kernels and the file that has it. waits: as its nodes; it shares multiprocessors
// with the launch before.
struct OwnKernel {
  std::string_view name, file;
  bool waits;
};
std::span<const OwnKernel> own_kernels();

// What the kernels of cuda/kernels need of the card they are loaded on.
struct Card {
  unsigned multiprocessors = 0;  // 0: they are not.
  void* narrow = nullptr;        // Activations of a pass as bf16, kNarrowBytes.
};
inline constexpr std::size_t kNarrowBytes = std::size_t{2} * kMaxPassRows * 4096;

std::vector<Node> lower(const Program& program, const Card& card);

}  // namespace lily::gpu::cuda
