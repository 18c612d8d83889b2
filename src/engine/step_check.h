// Steps in forms that whole passes of a checkpoint may never take, on random numbers: for a backend
// that judges its own launches.
#pragma once

#include "backend/ops.h"
#include "base/result.h"
#include "spec/model_spec.h"

namespace lily {

// attention of one row, head with the states that a draft head needs, copies of many bytes and
// of odd ones, memory and a matrix folded. The backend is prepared for the spec.
Result<void> check_steps(Backend& backend, const ModelSpec& spec);

}  // namespace lily
