// The `quantization` part of config.json: MLX affine, 4 or 8 bits, groups of 64, modules that differ by name.
#pragma once

#include "base/result.h"
#include "weights/config.h"
#include "weights/json.h"

namespace lily {

// `root` is config.json's object. Other methods (AWQ, GPTQ, FP8, MXFP4, none at all) are refused by name.
Result<QuantTable> parse_quantization(const JsonValue& root);

}  // namespace lily
