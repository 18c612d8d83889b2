// The commands. Each returns the exit status, or the error that main() prints and maps to one.
#pragma once

#include "cli/options.h"

namespace lily::cli {

Result<int> execute(const RunFlags& flags);
Result<int> execute(const ChatFlags& flags);
Result<int> execute(const ServeFlags& flags);
Result<int> execute(const InfoFlags& flags);
Result<int> execute(const DoctorFlags& flags);
Result<int> execute(const TokenizeFlags& flags);
Result<int> execute(const DetokenizeFlags& flags);
Result<int> execute(const RenderFlags& flags);
Result<int> execute(const EvalFlags& flags);
Result<int> execute(const SynthFlags& flags);
Result<int> execute(const BenchFlags& flags);
Result<int> execute(const LimitsFlags& flags);
Result<int> execute(const WorkerFlags& flags);
Result<int> execute(const SweepFlags& flags);
Result<int> execute(const AblateFlags& flags);
Result<int> execute(const PlotFlags& flags);
Result<int> execute(const BenchServeFlags& flags);

}  // namespace lily::cli
