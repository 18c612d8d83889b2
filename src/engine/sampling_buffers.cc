// Writing a request's sampling to the backend's memory.
#include "engine/sampling_buffers.h"

#include <vector>

namespace lily {

Result<SamplingBuffers> SamplingBuffers::create(Backend& backend, int vocab_rows) {
  SamplingBuffers out;
  const auto rows = static_cast<std::size_t>(vocab_rows);
  LILY_TRY(out.control, backend.allocate(PassBuffers::kBlocks * sizeof(SamplingControl), "sampling control"));
  LILY_TRY(out.generated, backend.allocate(rows * sizeof(std::int32_t), "token counts"));
  LILY_TRY(out.in_prompt, backend.allocate(rows, "prompt tokens"));
  LILY_TRY(out.bias_ids, backend.allocate(kMaxLogitBias * sizeof(std::int32_t), "bias"));
  LILY_TRY(out.bias_values, backend.allocate(kMaxLogitBias * sizeof(float), "bias"));
  LILY_TRY(out.allowed, backend.allocate((rows + 31) / 32 * sizeof(std::uint32_t), "allowed tokens"));
  return out;
}

void SamplingBuffers::begin(Backend& backend, const SamplingParams& params, std::span<const TokenId> prompt) {
  const std::vector<std::byte> zeros(generated.bytes());
  backend.write(generated, 0, zeros);
  std::vector<std::uint8_t> seen(in_prompt.bytes());
  for (const TokenId id : prompt) seen[static_cast<std::size_t>(id)] = 1;
  backend.write(in_prompt, 0, std::as_bytes(std::span(seen)));
  std::vector<std::int32_t> ids;
  std::vector<float> values;
  for (const auto& [id, value] : params.logit_bias) ids.push_back(id), values.push_back(value);
  backend.write(bias_ids, 0, std::as_bytes(std::span(ids)));
  backend.write(bias_values, 0, std::as_bytes(std::span(values)));
  host_ = {.generated = generated.as<std::int32_t>(),
           .in_prompt = in_prompt.as<std::uint8_t>(),
           .bias_ids = bias_ids.as<std::int32_t>(),
           .bias_values = bias_values.as<float>(),
           .allowed = nullptr,
           .seed = params.seed,
           .draw = 0,
           .temperature = params.temperature,
           .top_p = params.top_p,
           .min_p = params.min_p,
           .repetition_penalty = params.repetition_penalty,
           .presence_penalty = params.presence_penalty,
           .frequency_penalty = params.frequency_penalty,
           .top_k = params.top_k,
           .n_bias = static_cast<std::int32_t>(ids.size()),
           .n_top = params.n_top};
}

void SamplingBuffers::set_allowed(Backend& backend, std::span<const std::uint32_t> bits) {
  backend.write(allowed, 0, std::as_bytes(bits));
  host_.allowed = allowed.as<std::uint32_t>();
}

void SamplingBuffers::set_draw(Backend& backend, int block, std::uint64_t draw) {
  host_.draw = draw;
  backend.write(control, static_cast<std::size_t>(block) * sizeof host_, std::as_bytes(std::span(&host_, 1)));
}

}  // namespace lily
