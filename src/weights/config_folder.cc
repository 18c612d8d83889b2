// Reading the two files of a folder, and naming what is not such a folder.
#include <fmt/format.h>

#include <system_error>

#include "weights/config.h"

namespace lily {
namespace {

namespace fs = std::filesystem;

Error gguf(const Path& path) {
  return {ErrorCode::kUnsupported,
          fmt::format("{}: found GGUF, a format of llama.cpp that Lily does not read; {}", path.string(), kWhatToGet)};
}

bool begins_with(const Path& path, std::string_view magic) {
  auto file = MappedFile::open(path);
  if (!file.has_value() || file->bytes().size() < magic.size()) return false;
  return std::string_view(reinterpret_cast<const char*>(file->bytes().data()), magic.size()) == magic;
}

Error not_a_folder(const Path& path) {
  if (path.extension() == ".gguf" || begins_with(path, "GGUF")) return gguf(path);
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: found a file, expected the folder that holds config.json and the safetensors files",
                      path.string())};
}

// A folder without config.json: says what it seems to be.
Error no_config(const Path& folder) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() == ".gguf") return gguf(entry.path());
  }
  return {ErrorCode::kNotFound, fmt::format("{}: no config.json in this folder; {}", folder.string(), kWhatToGet)};
}

}  // namespace

Result<CheckpointConfig> read_config(const Path& folder) {
  std::error_code code;
  const auto status = fs::status(folder, code);
  if (status.type() == fs::file_type::not_found) {
    return Error{ErrorCode::kNotFound, folder.string() + ": no such folder"};
  }
  if (code) return system_error("looking at " + folder.string(), code.value());
  if (!fs::is_directory(status)) return not_a_folder(folder);
  auto text = read_file(folder / "config.json", kMaxConfigBytes);
  if (!text.has_value() && text.error().code == ErrorCode::kNotFound) return no_config(folder);
  if (!text.has_value()) return std::move(text).error();
  auto generation = read_file(folder / "generation_config.json", kMaxConfigBytes);
  const bool absent = !generation.has_value() && generation.error().code == ErrorCode::kNotFound;
  if (!absent && !generation.has_value()) return std::move(generation).error();
  if (!absent && generation->empty()) {
    return Error{ErrorCode::kCorrupt, folder.string() + ": generation_config.json: found an empty file, expected a JSON object"};
  }
  auto config = parse_config(*text, absent ? std::string_view() : *generation);
  if (!config.has_value()) return with_context(folder.string(), std::move(config).error());
  return config;
}

}  // namespace lily
