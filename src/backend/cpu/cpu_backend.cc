// Memory and scratch. The steps: see cpu_backend.h; the choice of an instruction set:
// kernels.cc.
#include "backend/cpu/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "backend/cpu/attention_scratch.h"
#include "base/check.h"

namespace lily::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kScratchAlign = 4096;
constexpr int kMostThreads = 1024;
constexpr std::int64_t kLeastPartials = 256;

bool inside(const Buffer& buffer, std::size_t offset, std::size_t bytes) {
  return offset <= buffer.bytes() && bytes <= buffer.bytes() - offset;
}

std::string describe(const Kernels& kernels, int threads, Activations activations) {
  return std::string(kernels.title) + ", " + std::to_string(threads) +
         (threads == 1 ? " thread, " : " threads, ") +
         (activations == Activations::kInt8 ? "int8" : "fp32") + " activations";
}

Result<void> check_spec(const ModelSpec& spec, int max_rows) {
  if (max_rows < 1 || max_rows > kMaxPassRows) {
    return Error{ErrorCode::kInvalidArgument, "rows of a pass: " + std::to_string(max_rows) +
                                                  ", expected 1 to " +
                                                  std::to_string(kMaxPassRows)};
  }
  const int group = spec.n_kv_heads > 0 ? spec.n_q_heads / spec.n_kv_heads : 0;
  if (group > kTileQueries) {
    return Error{ErrorCode::kUnsupported, "query heads of a KV head: " + std::to_string(group) +
                                              ", expected at most " + std::to_string(kTileQueries)};
  }
  return {};
}

}  // namespace

CpuBackend::CpuBackend(const BackendOptions& options, const Kernels& kernels, int threads)
    : options_(options),
      kernels_(kernels),
      pool_(threads),
      linear_(kernels, pool_, options.activations) {
  info_ = {.name = "cpu",
           .description = describe(kernels, pool_.size(), options.activations),
           .layout = WeightLayout::kInterleaved16,
           .kv_element_bytes = 2,
           .key_layout = KeyLayout::kInterleaved16};
}

Result<void> CpuBackend::prepare(const ModelSpec& spec, int max_rows) {
  LILY_RETURN_IF_ERROR(check_spec(spec, max_rows));
  const auto vocab = static_cast<std::size_t>(spec.vocab_rows),
             threads = static_cast<std::size_t>(pool_.size());
  const std::size_t slice = std::max({kAttentionThreadBytes, kDeltaDim * kDeltaDim * sizeof(float),
                                      vocab * (sizeof(std::uint64_t) + sizeof(float))});
  scratch_.vocab = spec.vocab_rows;
  scratch_.per_thread_bytes = round_up(slice, kScratchAlign);
  LILY_TRY(scratch_.per_thread,
           allocate(scratch_.per_thread_bytes * threads, "scratch of the threads"));
  scratch_.n_partials =
      std::max(kLeastPartials, std::int64_t{kGroupsPerThread} * kLeastSlots * pool_.size());
  const auto partial_bytes =
      static_cast<std::size_t>(scratch_.n_partials * kPartialsFloats) * sizeof(float);
  LILY_TRY(scratch_.partials, allocate(partial_bytes, "scratch of attention"));
  const auto chunks = static_cast<std::size_t>(kHeadBlockRows * n_chunks(spec.vocab_rows));
  LILY_TRY(scratch_.stats, allocate(chunks * sizeof(ChunkStats), "scratch of the vocabulary"));
  LILY_TRY(scratch_.divergence, allocate(chunks * sizeof(double), "scratch of the vocabulary"));
  return linear_.prepare(spec, max_rows, [this](std::size_t bytes, std::string_view what) {
    return allocate(bytes, what);
  });
}

// Anonymous pages are zero and take memory only when they are first touched.
Result<Buffer> CpuBackend::allocate(std::size_t bytes, std::string_view what) {
  const std::size_t mapped = std::max<std::size_t>(bytes, 1);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const pages = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (pages == MAP_FAILED) {
    return Error{ErrorCode::kNoMemory, "allocating " + std::string(what) + ": " +
                                           std::to_string(bytes) +
                                           " bytes: " + std::strerror(errno)};
  }
#if defined(MADV_HUGEPAGE)
  if (mapped >= kHugePage)
    madvise(pages, mapped, MADV_HUGEPAGE);  // Advice: refusal changes nothing but speed.
#endif
  return Buffer(pages, bytes,
                std::shared_ptr<void>(pages, [mapped](void* p) { munmap(p, mapped); }));
}

Result<Buffer> CpuBackend::adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(bytes.data()) % kSectionAlign;
  if (past != 0) {
    return Error{ErrorCode::kInvalidArgument, "weights lie " + std::to_string(past) +
                                                  " bytes past a multiple of " +
                                                  std::to_string(kSectionAlign) + ", expected 0"};
  }
  return Buffer(const_cast<std::byte*>(bytes.data()), bytes.size(), std::move(owner));
}

void CpuBackend::write(const Buffer& to, std::size_t offset, std::span<const std::byte> bytes) {
  LILY_CHECK(inside(to, offset, bytes.size()));
  if (!bytes.empty()) std::memcpy(to.as<std::byte>(offset), bytes.data(), bytes.size());
}

Result<void> CpuBackend::read(const Buffer& from, std::size_t offset, std::span<std::byte> bytes) {
  LILY_CHECK(inside(from, offset, bytes.size()));
  if (!bytes.empty()) std::memcpy(bytes.data(), from.as<std::byte>(offset), bytes.size());
  return {};
}

// A state is 2 MB a layer: large copies are split among the threads.
void CpuBackend::copy(const CopyArgs& args) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 18;
  const auto* const from = static_cast<const std::byte*>(args.from);
  auto* const to = static_cast<std::byte*>(args.to);
  pool_.parallel_for((args.bytes + kPiece - 1) / kPiece, [&](std::int64_t task) {
    const std::int64_t at = task * kPiece;
    std::memcpy(to + at, from + at, static_cast<std::size_t>(std::min(kPiece, args.bytes - at)));
  });
}

float* CpuBackend::thread_scratch(int thread, std::size_t bytes) const {
  LILY_CHECK(bytes <= scratch_.per_thread_bytes);
  return scratch_.per_thread.as<float>(static_cast<std::size_t>(thread) *
                                       scratch_.per_thread_bytes);
}

void CpuBackend::gather_stats(const LogitRows& rows) {
  LILY_CHECK(rows.vocab <= scratch_.vocab);
  const std::int64_t chunks = n_chunks(rows.vocab);
  auto* const stats = scratch_.stats.as<ChunkStats>();
  pool_.parallel_for(rows.n * chunks, [&](std::int64_t task) {
    const auto chunk = chunk_of(rows.row(task / chunks), task % chunks);
    stats[task] = kernels_.vocabulary.stats(chunk.data(), std::ssize(chunk));
  });
}

RowSummary CpuBackend::summary_of(const LogitRows& rows, std::int64_t i) const {
  const std::int64_t chunks = n_chunks(rows.vocab);
  return summarise(
      kernels_, {scratch_.stats.as<ChunkStats>() + i * chunks, static_cast<std::size_t>(chunks)});
}

std::span<std::uint64_t> CpuBackend::keys_of(int thread) const {
  const auto n = static_cast<std::size_t>(scratch_.vocab);
  return {reinterpret_cast<std::uint64_t*>(thread_scratch(thread, n * sizeof(std::uint64_t))), n};
}

std::span<float> CpuBackend::scores_of(int thread, std::size_t vocab) const {
  const std::size_t keys =
      static_cast<std::size_t>(scratch_.vocab) * (sizeof(std::uint64_t) / sizeof(float));
  return {thread_scratch(thread, 0) + keys, vocab};
}

Result<std::unique_ptr<Backend>> open(const BackendOptions& options) {
  if (options.threads < 0 || options.threads > kMostThreads) {
    return Error{ErrorCode::kInvalidArgument, "threads: " + std::to_string(options.threads) +
                                                  ", expected 0 to " +
                                                  std::to_string(kMostThreads)};
  }
  LILY_TRY(const Kernels* const kernels, choose_kernels(options.isa));
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(options, *kernels, options.threads));
}

}  // namespace lily::cpu
