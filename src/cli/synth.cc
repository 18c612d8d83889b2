// lily synth: a checkpoint of random weights, for measuring at full size without the real ones.
#include "weights/synth.h"

#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/terminal.h"

namespace lily::cli {

Result<int> execute(const SynthFlags& flags) {
  ProgressLine line(!flags.quiet);
  SynthOptions options;
  options.spec = flags.spec;
  options.layers = flags.n_layers;
  options.seed = flags.seed;
  options.out = flags.out;
  LILY_TRY(options.tokenizer_folder, model_folder(flags.tokenizer_folder));
  options.progress = [&line](std::uint64_t done, std::uint64_t total) {
    line.show("writing", static_cast<double>(done) / static_cast<double>(total),
              human_bytes(static_cast<double>(total)));
  };
  LILY_RETURN_IF_ERROR(write_synthetic_checkpoint(options));
  line.clear();
  if (!flags.quiet) print_note("wrote " + flags.out.string() + "\n");
  return 0;
}

}  // namespace lily::cli
