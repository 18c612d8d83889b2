// The text of the small files of a synthetic checkpoint.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "spec/model_spec.h"

namespace lily {

// The sizes of a named spec with this many layers (0: its own). kInvalidArgument: unknown name or bad count.
Result<ModelSpec> synthetic_spec(const std::string& name, int layers);

// config.json and generation_config.json of a spec, quantised as the published checkpoint is: 4 bits, routers and
// shared-expert gates 8.
std::string synthetic_config(const ModelSpec& spec);
std::string synthetic_generation_config(const ModelSpec& spec);

}  // namespace lily
