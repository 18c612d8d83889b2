// See inspect.h.
#include "weights/inspect.h"

#include <algorithm>
#include <system_error>

#include "spec/state_sizes.h"
#include "weights/image.h"
#include "weights/load.h"

namespace lily {
namespace {

namespace fs = std::filesystem;

struct PartRule {
  std::string_view in_name;  // The first rule whose text is in the tensor's name decides.
  const char* part;
};

constexpr PartRule kParts[] = {{"embed_tokens", "embedding"},          {"lm_head", "language head"},
                               {"switch_mlp.", "routed experts"},      {"shared_expert", "shared experts"},
                               {"mlp.gate", "routers"},                {"linear_attn.", "delta layers"},
                               {"self_attn.", "attention layers"},     {"norm", "norms"}};

const char* part_of(std::string_view name) {
  for (const auto& rule : kParts) {
    if (name.find(rule.in_name) != std::string_view::npos) return rule.part;
  }
  return "other";
}

std::uint64_t source_bytes(const Checkpoint& checkpoint, const ManifestEntry& entry) {
  if (!entry.quantised()) return checkpoint.find(entry.source).tensor->bytes();
  std::uint64_t total = 0;
  for (const char* suffix : {".weight", ".scales", ".biases"}) {
    total += checkpoint.find(entry.source + suffix).tensor->bytes();
  }
  return total;
}

// What of a tensor one token touches: of the experts the chosen share, of the embedding a row.
std::uint64_t active(const ManifestEntry& entry, const ModelSpec& spec) {
  const auto all = static_cast<std::uint64_t>(entry.rows * entry.cols);
  if (entry.name == "embed_tokens") return static_cast<std::uint64_t>(entry.cols);
  if (entry.name.find("switch_mlp.") == std::string::npos) return all;
  return all / static_cast<std::uint64_t>(spec.n_experts) * static_cast<std::uint64_t>(spec.n_chosen);
}

void add_parts(const Checkpoint& checkpoint, const std::vector<ManifestEntry>& entries, CheckpointSummary& out) {
  for (const auto& entry : entries) {
    const std::string name = part_of(entry.name);
    auto part = std::find_if(out.parts.begin(), out.parts.end(), [&](const auto& p) { return p.name == name; });
    if (part == out.parts.end()) part = out.parts.insert(out.parts.end(), PartSize{name, 0, 0});
    const auto n = static_cast<std::uint64_t>(entry.rows * entry.cols), bytes = source_bytes(checkpoint, entry);
    part->parameters += n;
    part->source_bytes += bytes;
    out.parameters += n;
    out.source_bytes += bytes;
    out.active_parameters += active(entry, out.config.spec);
  }
}

void add_left_out(const Checkpoint& checkpoint, CheckpointSummary& out) {
  LeftOut vision{"vision tower", 0, 0}, draft{"draft head", 0, 0};
  for (const auto& file : checkpoint.files()) {
    for (const auto& tensor : file.tensors()) {
      if (!is_left_out(tensor.name)) continue;
      auto& group = tensor.name.find("mtp.") != std::string::npos ? draft : vision;
      ++group.tensors;
      group.bytes += tensor.bytes();
    }
  }
  for (const auto& group : {vision, draft}) {
    if (group.tensors) out.left_out.push_back(group);
  }
  for (const auto& name : checkpoint.unused_files()) {
    std::error_code code;
    const auto size = fs::file_size(checkpoint.folder() / name, code);
    out.left_out.push_back({name, 0, code ? 0 : size});
  }
}

ImageState image_state(const ImagePlaces& places, const ImageHeader& wanted) {
  ImageState state{wanted.layout, places.beside, 0, "not packed yet"};
  for (const auto& path : {places.beside, places.cached}) {
    std::error_code code;
    if (path.empty() || !fs::exists(path, code)) continue;
    state.path = path;
    state.bytes = fs::file_size(path, code);
    const auto image = WeightImage::map(path);
    state.problem = image.has_value() ? image_difference(image->header(), wanted) : image.error().message;
    if (state.problem.empty()) break;
  }
  return state;
}

}  // namespace

Result<CheckpointSummary> inspect(const Path& folder, const Path& cache_folder) {
  CheckpointSummary out;
  LILY_TRY(out.config, read_config(folder));
  LILY_TRY(const auto checkpoint, Checkpoint::open(folder));
  const auto entries = manifest(out.config);
  LILY_RETURN_IF_ERROR(check_source(checkpoint, entries));
  LILY_TRY(const auto fingerprint, checkpoint.fingerprint());
  add_parts(checkpoint, entries, out);
  add_left_out(checkpoint, out);
  for (const auto layout : {WeightLayout::kInterleaved16, WeightLayout::kRowMajor}) {
    const auto plan = plan_image(entries, layout, fingerprint);
    out.images.push_back(image_state(image_places(folder, layout, cache_folder), plan));
    if (layout == WeightLayout::kInterleaved16) out.image_bytes = plan.data_bytes;
  }
  constexpr int kBf16Bytes = 2;
  const StateSizes sizes = state_sizes(out.config.spec, kBf16Bytes);
  out.state_bytes = sizes.slot_bytes;
  out.kv_bytes_per_token = sizes.kv_bytes_per_token;
  return out;
}

}  // namespace lily
