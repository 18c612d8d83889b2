// Gives a fuzz target the files of its seed folder: whole, and cut at up to kCuts places. What once broke a parser, put there,
// is a test of every build from then on. Any libFuzzer target links with it; a crash or a sanitizer's report is the failure.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kCuts = 32;

// A copy of the exact size, so that a sanitizer sees a read past the end.
void give(const std::vector<char>& bytes, std::size_t size) {
  const std::vector<std::uint8_t> input(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

void replay(const std::filesystem::path& seed) {
  std::ifstream file(seed, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  give(bytes, bytes.size());
  for (std::size_t i = 0; i < kCuts; ++i) give(bytes, bytes.size() * i / kCuts);
}

}  // namespace

int main(int argc, char** argv) {
  std::error_code error;
  int seeds = 0;
  if (argc == 2) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1], error)) {
      if (!entry.is_regular_file()) continue;
      replay(entry.path());
      ++seeds;
    }
  }
  std::printf("%d seeds replayed, each whole and cut at %zu places\n", seeds, kCuts);
  return seeds == 0 ? 1 : 0;  // A target without seeds has lost its folder.
}
