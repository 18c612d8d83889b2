// copy: 16 bytes at a time where both ends allow it.
#include "backend/gpu/kernels/copy_params.h"

#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

void record_copy(Recorder& to, const CopyArgs& args) {
  if (args.bytes == 0) return;
  const auto bytes = static_cast<std::uint64_t>(args.bytes);
  const bool words = (reinterpret_cast<std::uintptr_t>(args.from) |
                      reinterpret_cast<std::uintptr_t>(args.to) | bytes) %
                         16 ==
                     0;
  const CopyParams params{.from = static_cast<const unsigned char*>(args.from),
                          .to = static_cast<unsigned char*>(args.to),
                          .bytes_low = static_cast<std::uint32_t>(bytes),
                          .bytes_high = static_cast<std::uint32_t>(bytes >> 32)};
  const std::uint64_t group = 1024 * (words ? 16 : 1);
  to.launch(words ? "copy_words" : "copy_bytes", params,
            {static_cast<unsigned>((bytes + group - 1) / group)}, 256, {{args.from, bytes}},
            {{args.to, bytes}});
}

}  // namespace lily::gpu
