// Lily as an engine of a sweep: what it says of itself, and an answer to each line that it is
// asked. docs/SWEEPS.md has the protocol.
#pragma once

#include <string>

#include "engine/engine.h"
#include "measure/limits.h"
#include "measure/provenance.h"

namespace lily {

class SweepWorker {
 public:
  struct About {
    std::string model;  // "pocket": what the plots call it, layers are added.
    Provenance provenance;
    LimitsRequest limits;
  };
  SweepWorker(Engine& engine, About about) : engine_(engine), about_(std::move(about)) {}

  // Lines, without their ends.
  std::string hello() const;
  // What is wrong with a request is told in the answer.
  std::string answer(const std::string& request);

 private:
  Engine& engine_;
  About about_;
};

}  // namespace lily
