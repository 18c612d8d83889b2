// The measurements, one after the other.
#include "measure/backend_limits.h"

#include <algorithm>

#include "measure/pass_timer.h"

namespace lily {

// The most that was seen: a machine may be shared, and drift.
DeviceRates device_rates(const Backend& backend, const MachineLimits& machine,
                         const std::vector<StepRate>& steps) {
  DeviceRates rates;
  if (backend.info().name == "cpu") rates = {machine.read_all, machine.integer_all};
  for (const StepRate& step : steps) {
    const bool only_reads = step.rows == 0 && step.step != "copy";
    if (only_reads)
      rates.bytes_per_second = std::max(rates.bytes_per_second, step.bytes_per_second());
    rates.multiply_adds_per_second =
        std::max(rates.multiply_adds_per_second, step.multiply_adds_per_second());
  }
  return rates;
}

Result<BackendLimits> measure_backend(Backend& backend, const LoadedWeights& weights,
                                      const MachineLimits& machine,
                                      const BackendLimitsRequest& request) {
  const auto say = [&](std::string_view what) {
    if (request.on_part) request.on_part(what);
  };
  const ModelSpec& spec = weights.config.spec;
  BackendLimits out;
  say("launches");
  LILY_TRY(out.launches, measure_launches(backend, spec, request.repeats));
  say("steps");
  LILY_TRY(out.steps, measure_steps(backend, spec,
                                    {.repeats = request.repeats,
                                     .weight_bytes = request.read_bytes / 4,
                                     .read_bytes = request.read_bytes,
                                     .rows = request.rows,
                                     .positions = request.depth,
                                     .folds = true}));
  out.rates = device_rates(backend, machine, out.steps);
  say("passes");
  LILY_TRY(const auto timer,
           PassTimer::create(backend, weights,
                             {.max_rows = std::max(1, request.rows), .max_depth = request.depth}));
  const auto table = [&](const PassShape& shape) -> Result<KernelTable> {
    LILY_TRY(const auto times, timer->time(shape, request.repeats));
    return make_kernel_table(spec, shape, times, out.rates);
  };
  LILY_TRY(out.decode, table(timer->decode_shape(request.depth)));
  if (request.rows == 0) return out;
  LILY_TRY(auto prefill, table(timer->prefill_shape(request.rows)));
  out.prefill.push_back(std::move(prefill));
  return out;
}

}  // namespace lily
