// The files of page/ as they lie in the program; cmake/EmbedFiles.cmake writes the other half.
#pragma once

#include <string_view>
#include <vector>

namespace lily::server {

struct EmbeddedFile {
  std::string_view name;
  std::string_view bytes;
};

const std::vector<EmbeddedFile>& embedded_files();

}  // namespace lily::server
