// For ThreadSanitizer: whole passes of a small model of random numbers, many rows and few, scored
// and chosen, two in flight while the host works, must give no report; a decode pass without one of
// its barriers must give one. race_test.py runs it once a case.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "backend/gpu/declared.h"
#include "backend/gpu/emulator_device.h"
#include "backend/gpu/gpu_backend.h"
#include "engine/engine.h"
#include "weights/synth.h"

using namespace lily;

namespace {

// Three layers of the delta rule and one that attends.
Result<void> make_checkpoint(const Path& folder) {
  std::filesystem::remove_all(folder);
  return write_synthetic_checkpoint({.spec = "pocket",
                                     .layers = 4,
                                     .seed = 1,
                                     .out = folder,
                                     .tokenizer_folder = Path(LILY_SOURCE_DIR) / "models/pocket"});
}

std::vector<TokenId> tokens(int n) {
  std::vector<TokenId> out;
  for (int i = 0; i < n; ++i) out.push_back(300 + i * 37 % 2000);
  return out;
}

// The prompt in two chunks of tiles and one of few rows, then tokens.
Result<void> answer(Engine& engine) {
  GenerateRequest request{.prompt = tokens(37), .sampling = {}, .max_tokens = 4};
  request.sampling.seed = 5;
  request.sampling.top_p = 0.9f;
  request.sampling.repetition_penalty = 1.1f;
  request.sampling.n_top = 2;
  LILY_RETURN_IF_ERROR(engine.session().generate(request));
  return {};
}

// The second half of a decode pass in the stage of the first.
Result<void> without_a_barrier(Engine& engine, gpu::GpuBackend& backend,
                               gpu::EmulatorDevice& device) {
  LILY_RETURN_IF_ERROR(engine.score({.ids = tokens(1)}));
  const gpu::Program* program =
      backend.recorded({.rows_bound = 1, .head_blocks = 1, .score = true});
  if (program == nullptr) return Error{ErrorCode::kNotFound, "no recording of a decode pass"};
  const std::size_t n = program->launches().size();
  std::size_t middle = n / 2;
  while (!program->barrier_before(middle)) ++middle;
  return device.with_memory([&](gpu::Emulator& emulator) -> Result<void> {
    LILY_RETURN_IF_ERROR(gpu::dispatch(emulator, *program, 0, middle));
    return gpu::dispatch(emulator, *program, middle, n);
  });
}

Result<void> run(const Path& folder, const std::string& what) {
  LILY_TRY(auto device,
           gpu::EmulatorDevice::create({.order = gpu::LaneOrder::kShuffled, .seed = 3}));
  gpu::EmulatorDevice& on_device = *device;
  auto backend = std::make_unique<gpu::GpuBackend>(std::move(device));
  gpu::GpuBackend& on_backend = *backend;
  EngineOptions options;
  options.model = folder;
  options.make_backend = [&]() -> Result<std::unique_ptr<Backend>> { return std::move(backend); };
  options.context_tokens = 64;
  options.chunk_tokens = 16;
  options.pack = false;
  LILY_TRY(const auto engine, Engine::open(options));
  if (what == "barrier") return without_a_barrier(*engine, on_backend, on_device);
  LILY_RETURN_IF_ERROR(answer(*engine));
  const auto ids = tokens(20);
  LILY_RETURN_IF_ERROR(engine->score({.ids = ids, .first = 3, .n_top = 2}));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const Path folder =
      std::filesystem::temp_directory_path() / ("lily_pass_race." + std::to_string(::getpid()));
  auto done = make_checkpoint(folder);
  if (done) done = run(folder, argc > 1 ? argv[1] : "");
  std::filesystem::remove_all(folder);
  if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return done ? 0 : 2;
}
