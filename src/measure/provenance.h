// What a measured figure has to say of itself: which build, on which machine, how it was run, when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/ops.h"

namespace lily {

struct Provenance {
  std::string version = {}, commit = {};  // Of Lily; commit as built_commit() says it.
  std::string compiler = {};              // "GCC 12.2.0"
  std::string date = {};                  // "2026-11-30T14:20:05Z", when it was asked for.
  std::string processor = {};             // Empty where the system does not name it.
  std::string system = {};                // "Linux 6.1.0 x86_64"
  int cores = 0;                          // That this process may use.
  std::uint64_t memory_bytes = 0;
  double processor_hz = 0;  // As processor_hz() says it.
  // As the backend says, with its threads and instruction set; empty: none.
  std::string backend = {}, description = {};
  double device_hz = 0,
         device_memory_hz = 0;            // At most, as a device's driver says; 0: it does not.
  std::vector<std::string> options = {};  // As given: "--threads=2".
};

std::string utc_now();  // As in Provenance::date.

// Of this program, on this machine, now. Without a backend its fields stay empty.
Provenance provenance_here(const BackendInfo* backend, std::vector<std::string> options);

// One JSON object; of what is empty or 0 there is no field.
std::string provenance_json(const Provenance& provenance);
// "Lily 0.1.0 (6f4fb71c2a90), 2026-11-30T14:20:05Z, ...": a line or two for people.
std::string provenance_text(const Provenance& provenance);

}  // namespace lily
