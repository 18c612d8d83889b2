// Includes, flattened.
#include "backend/gpu/metal/sources.h"

#include <algorithm>
#include <set>

namespace lily::gpu::metal {
namespace {

// The path of `#include "path"`; empty for any other line.
std::string_view quoted_include(std::string_view line) {
  constexpr std::string_view kInclude = "#include \"";
  if (!line.starts_with(kInclude)) return {};
  line.remove_prefix(kInclude.size());
  return line.substr(0, line.find('"'));
}

class Flattener {
 public:
  explicit Flattener(std::span<const SourceFile> files) : files_(files) {}

  const SourceFile* find(std::string_view path) const {
    const auto at = std::find_if(files_.begin(), files_.end(),
                                 [&](const SourceFile& f) { return f.path == path; });
    return at == files_.end() ? nullptr : &*at;
  }
  void add(const SourceFile& file) {
    if (!seen_.insert(file.path).second) return;
    place(file, 1);
    std::string_view rest = file.text;
    for (int number = 1; !rest.empty(); ++number) {
      const auto end = rest.find('\n');
      add_line(file, rest.substr(0, end), number);
      rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    }
  }
  std::string take() { return std::move(out_); }

 private:
  void place(const SourceFile& file, int line) {
    out_.append("#line ")
        .append(std::to_string(line))
        .append(" \"")
        .append(file.path)
        .append("\"\n");
  }
  void add_line(const SourceFile& file, std::string_view line, int number) {
    const auto path = quoted_include(line);
    if (path.empty()) {
      out_.append(line == "#pragma once" ? "" : line).append("\n");
    } else if (const SourceFile* included = find(path)) {
      add(*included);
      place(file, number + 1);
    } else {
      out_.append("#error \"").append(path).append(" is not for Metal\"\n");
    }
  }

  std::span<const SourceFile> files_;
  std::set<std::string_view> seen_;
  std::string out_;
};

}  // namespace

Result<std::string> flatten(std::span<const SourceFile> files, std::string_view path) {
  Flattener flattener(files);
  const SourceFile* file = flattener.find(path);
  if (file == nullptr) {
    return Error{ErrorCode::kDevice,
                 "kernel file '" + std::string(path) + "' is not part of this program"};
  }
  flattener.add(*file);
  return flattener.take();
}

}  // namespace lily::gpu::metal
