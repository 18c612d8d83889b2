// Finding a checkpoint, and opening it with the flags of a command.
#include "cli/model_source.h"

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

#include <cstdint>
#include <system_error>

#include "cli/terminal.h"

namespace lily::cli {
namespace {

bool is_checkpoint(const Path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "config.json", ignored);
}

Path beside_the_program() {
  return program_file().parent_path().parent_path() / "share/lily/pocket";
}

void show_packing(ProgressLine& line, const PackProgress& progress) {
  constexpr const char* kDoing[] = {"waiting for another process that packs",
                                    "checking what was packed before", "packing",
                                    "copying to the device"};
  const auto total = static_cast<double>(progress.total_bytes);
  const double share = total > 0 ? static_cast<double>(progress.done_bytes) / total : 0.0;
  line.show(kDoing[static_cast<int>(progress.phase)], share, human_bytes(total));
}

}  // namespace

Path program_file() {
  std::error_code failed;
#if defined(__APPLE__)
  char name[4096];
  std::uint32_t size = sizeof name;
  return _NSGetExecutablePath(name, &size) == 0 ? std::filesystem::canonical(name, failed) : Path();
#else
  return std::filesystem::read_symlink("/proc/self/exe", failed);
#endif
}

Result<Path> model_folder(const Path& named) {
  if (!named.empty()) return named;
  for (const Path& folder : {Path(LILY_POCKET_DIR), beside_the_program()}) {
    if (is_checkpoint(folder)) return folder;
  }
  return Error{ErrorCode::kNotFound,
               "the pocket checkpoint is not at " LILY_POCKET_DIR "; name one with --model"};
}

std::string model_name(const Path& folder) {
  std::error_code ignored;
  const Path whole = std::filesystem::weakly_canonical(folder, ignored);
  const Path named = ignored ? folder : whole;
  return named.filename().empty() ? named.parent_path().filename().string()
                                  : named.filename().string();
}

Result<Tokenizer> load_tokenizer(const Path& named) {
  if (!named.empty()) return Tokenizer::load(named);
  LILY_TRY(const Path folder, model_folder({}));
  return Tokenizer::load(folder / "tokenizer.json");
}

Result<Mechanisms> mechanisms_of(const std::string& backend,
                                 const std::vector<std::string>& assignments) {
  Mechanisms mechanisms = default_mechanisms(backend);
  for (const auto& assignment : assignments) {
    LILY_RETURN_IF_ERROR(set_mechanism(mechanisms, assignment));
  }
  return mechanisms;
}

Result<std::unique_ptr<Engine>> open_engine(const EngineFlags& flags, const OpenWishes& wishes) {
  ProgressLine line(!wishes.quiet);
  EngineOptions options;
  LILY_TRY(options.model, model_folder(flags.model));
  options.backend = flags.backend;
  LILY_TRY(const Mechanisms mechanisms, mechanisms_of(flags.backend, flags.mechanisms));
  options.backend_options = {.threads = flags.threads,
                             .isa = flags.isa,
                             .activations = flags.exact ? Activations::kF32 : Activations::kInt8,
                             .mechanisms = mechanisms};
  options.chunk_tokens = flags.chunk_tokens;
  options.context_tokens = flags.context_tokens;
  options.beyond_declared = flags.beyond_declared;
  options.n_checkpoints = wishes.n_checkpoints;
  options.n_sequences = wishes.n_sequences;
  options.checkpoint_bytes = wishes.checkpoint_bytes;
  options.pack = !flags.no_pack;
  options.progress = [&line](const PackProgress& progress) { show_packing(line, progress); };
  return Engine::open(options);
}

}  // namespace lily::cli
