// lily bench plot: the files and the table of what was measured earlier or elsewhere, made again.
#include "cli/commands.h"
#include "cli/terminal.h"
#include "measure/ablation_record.h"
#include "measure/sweep_plot.h"
#include "measure/sweep_summary.h"

namespace lily::cli {
namespace {

Result<int> plot_ablation(const Path& folder) {
  LILY_TRY(const auto record, load_ablation(folder));
  LILY_RETURN_IF_ERROR(write_ablation(folder, record));
  print_out(ablation_text(record));
  return 0;
}

Result<int> plot_sweep(const Path& folder) {
  LILY_TRY(const auto record, load_record(folder));
  LILY_RETURN_IF_ERROR(write_sweep(folder, record));
  print_out(summary_text(record));
  return 0;
}

}  // namespace

Result<int> execute(const PlotFlags& flags) {
  std::error_code ignored;
  if (std::filesystem::exists(flags.folder / "ablation.json", ignored)) {
    LILY_RETURN_IF_ERROR(plot_ablation(flags.folder));
    if (!std::filesystem::exists(flags.folder / "results.json", ignored)) return 0;
  }
  return plot_sweep(flags.folder);
}

}  // namespace lily::cli
