// What each kernel of a program takes on the card, by the card's clock.
#pragma once

#include <memory>

#include "backend/gpu/cuda/modules.h"
#include "backend/gpu/device.h"

namespace lily::gpu::cuda {

// Of each kind of node all nodes of the pass in a row, one after the other has ended, so that a
// kernel is measured behind its like of the layer before, whose weights are others: from memory,
// with the end of one launch and the start of the next, but without what overlaps in a pass.
Result<ProgramTime> time_program(const Program& program, int repeats, const Modules& modules,
                                 const std::shared_ptr<Context>& context, CUstream stream);

}  // namespace lily::gpu::cuda
