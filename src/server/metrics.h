// Figures for Prometheus.
#pragma once

#include <memory>
#include <string>

#include "engine/scheduler.h"

namespace lily::server {

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void count_request(const std::string& route, int status);
  void observe_answer(const GenerateResult& result);
  // The text format, with the scheduler's own figures.
  std::string text(const SchedulerStats& stats, int n_connections) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lily::server
