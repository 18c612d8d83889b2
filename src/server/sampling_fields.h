// The fields that say how tokens are drawn, the same for every door.
#pragma once

#include <string>
#include <vector>

#include "engine/sampling.h"
#include "server/fields.h"

namespace lily::server {

struct SamplingDefaults {
  GenerationDefaults model;  // generation_config.json
  int vocab_size = 0;
};

// temperature, top_p, top_k, min_p, the penalties, seed, logit_bias. What is not sent comes from
// the model's defaults, the seed from the clock.
Result<SamplingParams> read_sampling(Fields& fields, const SamplingDefaults& defaults);

// "stop" (or "stop_sequences"): a string or a list of at most kMaxStops.
Result<std::vector<std::string>> read_stop(Fields& fields, std::string_view key);

}  // namespace lily::server
