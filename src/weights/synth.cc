// Shards, index and copied files of a synthetic checkpoint; the numbers come from synth_values.cc.
#include "weights/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "weights/config.h"
#include "weights/hash.h"
#include "weights/json.h"
#include "weights/safetensors.h"
#include "weights/synth_config.h"
#include "weights/synth_values.h"

namespace lily {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kShardBytes = std::uint64_t{5} << 30;
constexpr std::size_t kWriteBytes = 8u << 20;
constexpr std::uint64_t kSpareDiskBytes = 64u << 20;

using Shard = std::vector<SynthTensor>;

// A new shard begins where 5 GiB would be exceeded, in the order of the modules.
std::vector<Shard> split_shards(const std::vector<ManifestEntry>& entries) {
  std::vector<Shard> shards(1);
  std::uint64_t bytes = 0;
  for (const auto& entry : entries) {
    for (auto& tensor : synth_tensors(entry)) {
      if (bytes + tensor.bytes > kShardBytes) {
        shards.emplace_back();
        bytes = 0;
      }
      bytes += tensor.bytes;
      shards.back().push_back(std::move(tensor));
    }
  }
  for (auto& shard : shards) {  // The writer of the original walks a hash table.
    std::sort(shard.begin(), shard.end(), [](const auto& a, const auto& b) {
      const auto hash = [](const SynthTensor& t) { return checksum(std::as_bytes(std::span(t.name))); };
      return std::pair(hash(a), a.name) < std::pair(hash(b), b.name);
    });
  }
  return shards;
}

std::uint64_t total_bytes(const std::vector<Shard>& shards) {
  std::uint64_t total = 0;
  for (const auto& shard : shards) {
    for (const auto& tensor : shard) total += tensor.bytes;
  }
  return total;
}

std::string shard_name(std::size_t index, std::size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

// Length and JSON with sorted names. A blank is added where the data would otherwise begin at an even byte: three of the
// four real shards have them at an odd one, and readers must bear it.
std::string shard_header(const Shard& shard) {
  std::map<std::string, std::string> sorted;
  std::uint64_t at = 0;
  for (const auto& t : shard) {
    sorted[t.name] = fmt::format("{}:{{\"data_offsets\":[{},{}],\"dtype\":\"{}\",\"shape\":{}}}", json_quoted(t.name), at,
                                 at + t.bytes, t.part == SynthPart::kCodes ? "U32" : "BF16", shape_text(t.shape));
    at += t.bytes;
  }
  std::string json = R"({"__metadata__":{"format":"mlx"})";
  for (const auto& [name, text] : sorted) json += "," + text;
  json += '}';
  if (json.size() % 2 == 0) json += ' ';
  const std::uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + json;
}

std::string index_json(const std::vector<Shard>& shards) {
  std::map<std::string, std::string> homes;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const auto& t : shards[i]) homes[t.name] = shard_name(i, shards.size());
  }
  std::string text = fmt::format("{{\n    \"metadata\": {{\n        \"total_size\": {}\n    }},\n    \"weight_map\": {{",
                                 total_bytes(shards));
  const char* separator = "\n";
  for (const auto& [name, shard] : homes) {
    text += fmt::format("{}        {}: {}", separator, json_quoted(name), json_quoted(shard));
    separator = ",\n";
  }
  return text + "\n    }\n}";
}

Result<void> write_text(const Path& path, std::string_view text) {
  LILY_TRY(auto file, AtomicFile::create(path));
  LILY_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(text.data(), text.size()))));
  return file.commit();
}

class Writer {
 public:
  Writer(const SynthOptions& options, std::uint64_t total) : options_(options), total_(total), buffer_(kWriteBytes) {}

  Result<void> shard(const Shard& shard, const Path& path) {
    LILY_TRY(auto file, AtomicFile::create(path));
    const auto header = shard_header(shard);
    LILY_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(header))));
    for (const auto& tensor : shard) LILY_RETURN_IF_ERROR(contents(tensor, file));
    return file.commit();
  }

 private:
  Result<void> contents(const SynthTensor& tensor, AtomicFile& file) {
    for (std::uint64_t at = 0; at < tensor.bytes; at += kWriteBytes) {
      const auto part = std::span(buffer_).first(std::min<std::uint64_t>(kWriteBytes, tensor.bytes - at));
      synth_fill(tensor, options_.seed, at, part);
      LILY_RETURN_IF_ERROR(file.append(part));
      done_ += part.size();
      if (options_.progress) options_.progress(done_, total_);
    }
    return {};
  }

  const SynthOptions& options_;
  std::uint64_t total_, done_ = 0;
  std::vector<std::byte> buffer_;
};

Result<void> prepare_out(const Path& out, std::uint64_t bytes) {
  std::error_code code;
  fs::create_directories(out, code);
  if (code) return system_error("creating " + out.string(), code.value());
  if (!fs::is_empty(out, code) || code) {
    return Error{ErrorCode::kInvalidArgument, out.string() + ": found files in it, expected a new or empty folder"};
  }
  const auto space = fs::space(out, code);
  if (code || space.available >= bytes + kSpareDiskBytes) return {};
  return Error{ErrorCode::kNoSpace,
               fmt::format("{}: the checkpoint needs {:.1f} GB, the disk has {:.1f} GB free", out.string(),
                           static_cast<double>(bytes) / 1e9, static_cast<double>(space.available) / 1e9)};
}

Result<void> copy_tokenizer(const Path& from, const Path& to) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    std::error_code code;
    if (!fs::exists(from / name, code)) continue;
    LILY_TRY(const auto text, read_file(from / name, kMaxConfigBytes * 4));
    LILY_RETURN_IF_ERROR(write_text(to / name, text));
  }
  return {};
}

// The end tokens of the tokenizer that will be used, as far as the vocabulary has them. A folder without a config has the family's own.
Result<void> take_end_tokens(const Path& folder, ModelSpec& spec) {
  const Path tokenizer = folder / "tokenizer.json";
  std::error_code code;
  if (!fs::exists(tokenizer, code)) return Error{ErrorCode::kNotFound, tokenizer.string() + ": no tokenizer to copy"};
  if (!fs::exists(folder / "config.json", code)) return {};
  LILY_TRY(const auto config, read_config(folder));
  spec.end_tokens.clear();
  for (const TokenId id : config.spec.end_tokens) {
    if (id < spec.vocab_rows) spec.end_tokens.push_back(id);
  }
  if (!spec.end_tokens.empty()) return {};
  return Error{ErrorCode::kInvalidArgument,
               folder.string() + ": its end tokens lie beyond the vocabulary of the checkpoint to be made"};
}

}  // namespace

Result<void> write_synthetic_checkpoint(const SynthOptions& options) {
  LILY_TRY(auto spec, synthetic_spec(options.spec, options.layers));
  if (!options.tokenizer_folder.empty()) LILY_RETURN_IF_ERROR(take_end_tokens(options.tokenizer_folder, spec));
  const auto config_text = synthetic_config(spec), generation_text = synthetic_generation_config(spec);
  LILY_TRY(const auto config, parse_config(config_text, generation_text));
  const auto entries = manifest(config);
  const auto shards = split_shards(entries);
  LILY_RETURN_IF_ERROR(prepare_out(options.out, total_bytes(shards)));
  Writer writer(options, total_bytes(shards));
  for (std::size_t i = 0; i < shards.size(); ++i) {
    LILY_RETURN_IF_ERROR(writer.shard(shards[i], options.out / shard_name(i, shards.size())));
  }
  LILY_RETURN_IF_ERROR(write_text(options.out / "model.safetensors.index.json", index_json(shards)));
  LILY_RETURN_IF_ERROR(write_text(options.out / "generation_config.json", generation_text));
  if (!options.tokenizer_folder.empty()) LILY_RETURN_IF_ERROR(copy_tokenizer(options.tokenizer_folder, options.out));
  return write_text(options.out / "config.json", config_text);
}

}  // namespace lily
