// Holding a checkpoint against the manifest: names, dtypes, shapes, and signs of an unconverted checkpoint.
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "weights/floats.h"
#include "weights/json.h"
#include "weights/manifest.h"

namespace lily {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr double kLowestNormMean = 0.5, kHighestNormMean = 1.5;

class SourceCheck {
 public:
  explicit SourceCheck(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  void entry(const ManifestEntry& e) {
    if (!e.quantised()) return plain(e);
    Shape codes = e.source_shape, sides = e.source_shape;
    codes.back() = codes.back() * e.bits / 32;
    sides.back() /= kQuantGroup;
    tensor(e.source + ".weight", "U32", codes);
    tensor(e.source + ".scales", "BF16", sides);
    tensor(e.source + ".biases", "BF16", sides);
  }

  void surplus() {
    for (const auto& file : checkpoint_.files()) {
      for (const auto& t : file.tensors()) {
        if (!known_.count(t.name) && !is_left_out(t.name)) {
          problem(fmt::format("unknown tensor '{}' ({})", printable(t.name), described(t)));
        }
      }
    }
  }

  Result<void> outcome() const {
    if (count_ == 0) return {};
    std::string text = fmt::format("{}: {} do{} not fit the model that config.json describes: {}",
                                   checkpoint_.folder().string(), count_ == 1 ? "a tensor" : "tensors",
                                   count_ == 1 ? "es" : "", listed_);
    if (count_ > kMaxProblems) text += fmt::format("; and {} more", count_ - kMaxProblems);
    return Error{ErrorCode::kCorrupt, std::move(text)};
  }

 private:
  void problem(const std::string& text) {
    if (++count_ > kMaxProblems) return;
    if (!listed_.empty()) listed_ += "; ";
    listed_ += text;
  }

  Checkpoint::Found found(const std::string& name, std::string_view expected) {
    known_.insert(name);
    const auto found = checkpoint_.find(name);
    if (!found) problem(fmt::format("missing tensor '{}', expected {}", name, expected));
    return found;
  }

  void tensor(const std::string& name, std::string_view dtype, const Shape& shape) {
    const auto expected = fmt::format("{} {}", dtype, shape_text(shape));
    const auto t = found(name, expected);
    if (t && (t.tensor->dtype != dtype || t.tensor->shape != shape)) {
      problem(fmt::format("tensor '{}': found {}, expected {}", name, described(*t.tensor), expected));
    }
  }

  void plain(const ManifestEntry& e) {
    const auto expected = fmt::format("BF16, F16 or F32 {}", shape_text(e.source_shape));
    const auto t = found(e.source, expected);
    if (t && (!is_float(t.tensor->dtype) || t.tensor->shape != e.source_shape)) {
      problem(fmt::format("tensor '{}': found {}, expected {}", e.source, described(*t.tensor), expected));
    }
  }

  const Checkpoint& checkpoint_;
  std::set<std::string> known_;
  std::string listed_;
  std::size_t count_ = 0;
};

Error unconverted(const Checkpoint& checkpoint, const std::string& what) {
  return {ErrorCode::kUnsupported,
          fmt::format("{}: {}: this looks like the original, unconverted checkpoint; {}", checkpoint.folder().string(), what,
                      kWhatToGet)};
}

// Signs of raw weights, looked for first so that they are named as such and not as hundreds of unknown tensors.
Result<void> check_converted(const Checkpoint& checkpoint) {
  for (const auto& file : checkpoint.files()) {
    for (const auto& t : file.tensors()) {
      if (t.name.rfind("model.language_model.", 0) == 0) {
        return unconverted(checkpoint, fmt::format("tensor '{}'", printable(t.name)));
      }
      const bool conv = t.name.size() > 14 && t.name.substr(t.name.size() - 14) == ".conv1d.weight";
      if (conv && !is_left_out(t.name) && t.shape.size() == 3 && t.shape[2] != 1 && t.shape[1] == 1) {
        return unconverted(checkpoint, fmt::format("tensor '{}' is {}, expected [channels, {}, 1]", printable(t.name),
                                                   shape_text(t.shape), kConvTaps));
      }
    }
  }
  return {};
}

// A converted norm holds 1 + w, an original one w: their means are near 1 and near 0.
Result<void> check_norm_mean(const Checkpoint& checkpoint) {
  const std::string name = "language_model.model.layers.0.input_layernorm.weight";
  const auto t = checkpoint.find(name);
  const auto values = to_floats(t.bytes(), t.tensor->dtype);
  double sum = 0.0;
  for (const float v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  if (mean >= kLowestNormMean && mean <= kHighestNormMean) return {};
  if (!std::isfinite(mean)) {
    return Error{ErrorCode::kNotFinite, fmt::format("tensor '{}': found NaN or infinity", name)};
  }
  return unconverted(checkpoint, fmt::format("tensor '{}' has a mean of {:.3f}, expected {} to {}", name, mean,
                                             kLowestNormMean, kHighestNormMean));
}

}  // namespace

bool is_left_out(std::string_view name) {
  for (const std::string_view prefix : {"vision_tower.", "mtp.", "language_model.mtp.", "model.visual."}) {
    if (name.substr(0, prefix.size()) == prefix) return true;
  }
  return false;
}

Result<void> check_source(const Checkpoint& checkpoint, const std::vector<ManifestEntry>& entries) {
  LILY_RETURN_IF_ERROR(check_converted(checkpoint));
  SourceCheck check(checkpoint);
  for (const auto& entry : entries) check.entry(entry);
  check.surplus();
  LILY_RETURN_IF_ERROR(check.outcome());
  return check_norm_mean(checkpoint);
}

}  // namespace lily
