// Opening a model.
#include "engine/engine.h"

#include <algorithm>

#include "engine/impl.h"
#include "spec/layout.h"
#include "spec/state_sizes.h"
#include "weights/hash.h"
#include "weights/manifest.h"

namespace lily {
namespace {

Result<void> check_options(const EngineOptions& options) {
  if (options.chunk_tokens < 1 || options.chunk_tokens > kMaxPassRows) {
    return Error{ErrorCode::kInvalidArgument, "chunk: " + std::to_string(options.chunk_tokens) +
                                                  " tokens, expected 1 .. " + std::to_string(kMaxPassRows)};
  }
  if (options.n_sequences < 1 || options.n_sequences > kMaxSegments) {
    return Error{ErrorCode::kInvalidArgument, "answers at a time: " + std::to_string(options.n_sequences) + ", expected 1 .. " + std::to_string(kMaxSegments)};
  }
  if (options.context_tokens < 0) {
    return Error{ErrorCode::kInvalidArgument, "context: " + std::to_string(options.context_tokens) + ", expected 1 or more, or 0 for as many as fit"};
  }
  return {};
}

// A sequence may end in the middle of a page.
int n_pages(const MemoryPlan& plan, const EngineOptions& options) {
  const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(options.kv_tokens, plan.context_tokens));
  const std::uint64_t positions = options.kv_tokens > 0 ? std::min(wanted, plan.kv_tokens) : plan.kv_tokens;
  return static_cast<int>(positions / kKvPageTokens) + options.n_sequences;
}

// Bytes that may be kept for reuse: as was asked for, or so many states with the positions of one context.
std::size_t kept_bytes(const EngineOptions& options, const StateSizes& sizes, int context_tokens) {
  if (options.n_checkpoints == 0) return options.checkpoint_bytes;
  return static_cast<std::size_t>(options.n_checkpoints) * sizes.slot_bytes +
         round_up(static_cast<std::size_t>(context_tokens), kKvPageTokens) * sizes.kv_bytes_per_token;
}

// Two engines with the same one leave states that the other can go on from.
std::uint64_t fingerprint(const LoadedWeights& loaded, const BackendInfo& backend, const EngineOptions& options) {
  Hasher hasher;
  hasher.add(loaded.image.header().source);
  hasher.add(loaded.image.header().manifest);
  hasher.add(backend.name);
  hasher.add(static_cast<std::uint64_t>(options.backend_options.activations));
  hasher.add(static_cast<std::uint64_t>(backend.key_layout));
  return hasher.value();
}

// The context that was asked for, or as many positions as the memory holds; a verdict from the config alone, before anything is
// packed or allocated.
Result<MemoryPlan> settle_context(const EngineOptions& options, const CheckpointConfig& config, const Backend& backend) {
  if (options.context_tokens > config.spec.max_context && !options.beyond_declared) {
    return Error{ErrorCode::kInvalidArgument, "context: " + std::to_string(options.context_tokens) + ", the model has " +
                                                  std::to_string(config.spec.max_context) + " positions (--beyond-declared lifts this)"};
  }
  const BackendInfo& info = backend.info();
  const std::uint64_t kept_states =
      options.n_checkpoints > 0 ? kept_bytes(options, state_sizes(config.spec, info.kv_element_bytes), 0) : options.checkpoint_bytes;
  const auto plan = plan_memory(config.spec, {.memory_bytes = info.memory_bytes > 0 ? info.memory_bytes : machine_memory_bytes(),
                                              .weight_bytes = plan_image(manifest(config), info.layout, 0).data_bytes,
                                              .context_tokens = options.context_tokens,
                                              .chunk_tokens = options.chunk_tokens,
                                              .n_sequences = options.n_sequences,
                                              .n_slots = AnswerPasses::first_slot(options.n_sequences),
                                              .kept_bytes = options.checkpoint_bytes,
                                              .kept_states = info.memory_bytes > 0 ? 0 : kept_states,
                                              .kv_element_bytes = info.kv_element_bytes,
                                              .backend_bytes = backend.scratch_bytes(config.spec, options.chunk_tokens)});
  if (!plan.fits) {
    return Error{ErrorCode::kNoMemory, "the model does not fit this machine: " + std::to_string(plan.missing / 1'000'000) +
                                           " MB short; " + plan.advice};
  }
  return plan;
}

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const Path& folder, const ModelSpec& spec) {
  LILY_TRY(auto tokenizer, Tokenizer::load(folder / "tokenizer.json"));
  if (tokenizer.n_ids() > spec.vocab_rows) {
    return Error{ErrorCode::kCorrupt, "tokenizer.json: " + std::to_string(tokenizer.n_ids()) + " ids, the model has " +
                                          std::to_string(spec.vocab_rows) + " rows (vocab_size)"};
  }
  return std::make_unique<Tokenizer>(std::move(tokenizer));
}

Result<std::unique_ptr<Backend>> open_backend_of(const EngineOptions& options) {
  if (options.make_backend) return options.make_backend();
  BackendOptions how = options.backend_options;
  how.on_upload = [progress = options.progress](std::uint64_t done, std::uint64_t total) {
    if (progress) progress({.phase = PackProgress::Phase::kUploading, .done_bytes = done, .total_bytes = total});
  };
  return open_backend(options.backend, how);
}

double rate(double n, double seconds) {
  return n > 0 && seconds > 0 ? n / seconds : 0.0;
}

}  // namespace

// The first token comes from the prompt's last pass.
double decode_rate(const GenerateResult& result) {
  return rate(static_cast<double>(result.tokens.size()) - (result.end_token >= 0 ? 0.0 : 1.0), result.decode_seconds);
}

double prefill_rate(const GenerateResult& result) {
  return rate(result.prompt_tokens - result.cached_tokens, result.prefill_seconds);
}

std::string_view finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEnd:
    case FinishReason::kStopString: return "stop";
    case FinishReason::kLength:
    case FinishReason::kContextFull: return "length";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "";
}

std::string_view reuse_limit_name(ReuseLimit limit) {
  switch (limit) {
    case ReuseLimit::kNothingStored: return "nothing stored";
    case ReuseLimit::kWhole: return "whole";
    case ReuseLimit::kDiffers: return "differs";
    case ReuseLimit::kNoCheckpoint: return "no checkpoint";
    case ReuseLimit::kEvicted: return "evicted";
    case ReuseLimit::kOverBudget: return "over budget";
  }
  return "";
}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  LILY_RETURN_IF_ERROR(check_options(options));
  auto impl = std::make_unique<Impl>();
  LILY_TRY(auto config, read_config(options.model));
  LILY_TRY(impl->backend, open_backend_of(options));
  LILY_TRY(const MemoryPlan plan, settle_context(options, config, *impl->backend));
  LILY_TRY(impl->tokenizer, open_tokenizer(options.model, config.spec));
  LILY_TRY(const auto loaded, load_weights(options.model, std::move(config), {.layout = impl->backend->info().layout,
                                                                              .pack = options.pack,
                                                                              .cache_folder = {},
                                                                              .progress = options.progress}));
  const ModelSpec& spec = loaded.config.spec;
  impl->defaults = loaded.config.generation;
  LILY_TRY(impl->model, create_model(*impl->backend, loaded,
                                     {.state = {.n_sequences = options.n_sequences,
                                                .max_positions = plan.context_tokens,
                                                .n_pages = n_pages(plan, options),
                                                .n_slots = AnswerPasses::first_slot(options.n_sequences)},
                                      .max_rows = std::min(options.chunk_tokens, plan.context_tokens),
                                      .vocab_used = impl->tokenizer->n_ids()}));
  for (int i = 0; i < options.n_sequences; ++i) {
    LILY_TRY(auto sampling, SamplingBuffers::create(*impl->backend, spec.vocab_rows));
    impl->sampling.push_back(std::move(sampling));
  }
  impl->checkpoint_bytes = kept_bytes(options, state_sizes(spec, impl->backend->info().kv_element_bytes), plan.context_tokens);
  impl->fingerprint = fingerprint(loaded, impl->backend->info(), options);
  impl->decode_way = decode_way(*impl->backend);
  impl->session.reset(new Session(*impl));
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

const ModelSpec& Engine::spec() const { return impl_->model.weights.spec; }
const Tokenizer& Engine::tokenizer() const { return *impl_->tokenizer; }
const GenerationDefaults& Engine::generation_defaults() const { return impl_->defaults; }
const BackendInfo& Engine::backend() const { return impl_->backend->info(); }
int Engine::context_tokens() const { return impl_->context_tokens(); }
Session& Engine::session() { return *impl_->session; }

Result<void> Engine::set_mechanisms(const Mechanisms& mechanisms) {
  impl_->session->clear();
  LILY_RETURN_IF_ERROR(impl_->backend->set_mechanisms(mechanisms));
  impl_->decode_way = decode_way(*impl_->backend);
  return {};
}

}  // namespace lily
