// For ThreadSanitizer: right dispatches must give no report, a missing barrier must give one.
// race_test.py runs it once a case.
#include <cstdlib>
#include <string>
#include <vector>

#include "backend/gpu/emulator/emulator.h"
#include "tests/gpu/planted.h"

using namespace lily::gpu;

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  std::vector<float> a(512), b(512), c(512);
  auto created = Emulator::create({.order = LaneOrder::kShuffled, .seed = 3});
  if (!created.has_value()) return 2;
  Emulator& emulator = **created;
  const auto run = [&](const Kernel& kernel, const std::vector<float>& x, std::vector<float>& y,
                       uint n, uint mode) {
    const bool ok =
        emulator.run(kernel, PlantedParams{x.data(), y.data(), n, mode}, {4}, 64).has_value();
    if (!ok) std::exit(2);
  };
  const auto mode = [&](const char* name, uint planted) { return what == name ? planted : 0u; };
  for (int round = 0; round < 40;
       ++round) {  // Far more lanes than ThreadSanitizer holds at a time.
    run(PLANTED(planted_sum), a, b, 0, mode("barrier", 1) + mode("barrier_behind", 2));
    if (what != "dispatches") emulator.barrier();
    run(PLANTED(planted_copy), b, c, 256, mode("groups", 1));
    emulator.barrier();
    run(PLANTED(planted_lanes_order), c, b, 0, mode("lanes", 1));
    run(PLANTED(planted_counter), a, a, 0, 0);
    emulator.barrier();
    a[1] += b[1] + c[1];  // The host may read and write behind a barrier.
  }
  return 0;
}
