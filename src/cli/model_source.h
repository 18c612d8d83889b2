// Which checkpoint a command works on, and opening it as an engine or a tokenizer.
#pragma once

#include <memory>

#include "cli/options.h"
#include "engine/engine.h"

namespace lily::cli {

// This program's own file; empty where the system does not say.
Path program_file();

// The folder that was named, else the pocket checkpoint: of the source tree, or installed beside
// the program.
Result<Path> model_folder(const Path& named);

// What a model is called: by its folder.
std::string model_name(const Path& folder);

// The file that was named, else the pocket checkpoint's tokenizer.
Result<Tokenizer> load_tokenizer(const Path& named);

struct OpenWishes {
  int n_checkpoints = 0;
  int n_sequences = 1;               // Answers at a time.
  std::size_t checkpoint_bytes = 0;  // Kept of earlier prompts and answers.
  bool quiet = false;                // No progress line.
};

// The backend's own after these assignments, "NAME=on" or "NAME=off".
Result<Mechanisms> mechanisms_of(const std::string& backend,
                                 const std::vector<std::string>& assignments);

Result<std::unique_ptr<Engine>> open_engine(const EngineFlags& flags, const OpenWishes& wishes);

}  // namespace lily::cli
