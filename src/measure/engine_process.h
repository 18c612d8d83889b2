// An engine under measurement: a child process that speaks the protocol of docs/SWEEPS.md, Lily's
// own `bench worker` like any peer.
#pragma once

#include <memory>
#include <string>

#include "measure/line_process.h"
#include "measure/sweep_point.h"

namespace lily {

// The first line that an engine says.
struct EngineHello {
  std::string engine, version, system, model;
  int context_tokens = 0;  // 0: it does not say.
  EngineWork work = {};         // Of engines that know what a token costs.
  std::string json;        // The whole line.
};

// kCorrupt says what is wrong with the line.
Result<EngineHello> parse_hello(const std::string& line);

class EngineProcess {
 public:
  struct Options {
    std::string command;
    Path log;
    double limit_seconds = 3600;  // For one answer, the hello included.
    const std::atomic<bool>* cancel = nullptr;
  };
  // Started and greeted.
  static Result<std::unique_ptr<EngineProcess>> start(const Options& options);

  ~EngineProcess();  // One that is well is let leave of its own accord.

  const EngineHello& hello() const { return hello_; }
  // False after it died, gave no answer or spoke nonsense: nothing more is to be had from it. An
  // error in its own words leaves it alive.
  bool alive() const { return alive_; }

  Result<Timing> measure(const SweepPoint& point);
  // What its machine can do, as the engine measures it now; kUnsupported where it cannot.
  Result<MachineCeiling> limits();

 private:
  EngineProcess(Options options, std::unique_ptr<LineProcess> process)
      : options_(std::move(options)), process_(std::move(process)) {}
  Result<void> greet();
  // With the last words of its standard error, where it has ended.
  Error explained(Error error) const;
  Result<std::string> exchange(const std::string& request);

  Options options_;
  std::unique_ptr<LineProcess> process_;
  EngineHello hello_;
  bool alive_ = false;
};

}  // namespace lily
