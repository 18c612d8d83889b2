// The experts of few rows with nothing fused: a launch per product, activation and sum.
#pragma once

#include "backend/args.h"
#include "backend/gpu/recorder.h"

namespace lily::gpu {

void record_experts_up_apart(Recorder& to, const ExpertsUpArgs& args);
void record_experts_down_apart(Recorder& to, const ExpertsDownArgs& args);

}  // namespace lily::gpu
