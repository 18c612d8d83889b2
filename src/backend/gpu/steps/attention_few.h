// Attention of few rows.
#pragma once

#include "backend/args.h"
#include "backend/gpu/recorder.h"

namespace lily::gpu {

// prepare: the attention_prepare that is done on the way, or null.
void record_attention_few(Recorder& to, const AttentionArgs& args,
                          const AttentionPrepareArgs* prepare);

}  // namespace lily::gpu
