// The head's product as part of a choice.
#pragma once

#include "backend/args.h"
#include "backend/gpu/kernels/vocabulary_params.h"
#include "backend/gpu/recorder.h"

namespace lily::gpu {

// The head, and what is known of each chunk of its logits.
void record_head_chunks(Recorder& to, const HeadArgs& args, VocabularyChunk* chunks,
                        int vocab_used);

}  // namespace lily::gpu
