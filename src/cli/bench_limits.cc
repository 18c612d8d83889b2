// lily bench limits: what the machine and a backend can do at most, and where passes spend their
// time.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/machine_limits.h"
#include "cli/model_source.h"
#include "cli/terminal.h"
#include "measure/backend_limits.h"
#include "measure/provenance.h"
#include "weights/synth_config.h"
#include "weights/synth_image.h"

namespace lily::cli {
namespace {

using nlohmann::ordered_json;

// A shape at which a backend has an answer within minutes.
std::string usual_spec(const std::string& backend) {
  return backend == "emulator" || backend == "reference" ? "pocket" : "35b";
}

// Of a checkpoint, or random ones of a shape.
Result<LoadedWeights> weights_of(const LimitsFlags& flags, WeightLayout layout) {
  if (!flags.model.empty())
    return load_weights(flags.model, {.layout = layout, .pack = !flags.no_pack});
  const std::string name = flags.spec.empty() ? usual_spec(flags.backend) : flags.spec;
  LILY_TRY(const ModelSpec spec, synthetic_spec(name, flags.n_layers));
  return synthetic_weights(spec, layout, 1);
}

Result<std::unique_ptr<Backend>> backend_of(const LimitsFlags& flags) {
  LILY_TRY(const Mechanisms mechanisms, mechanisms_of(flags.backend, flags.mechanisms));
  return open_backend(flags.backend,
                      {.threads = flags.threads, .isa = flags.isa, .mechanisms = mechanisms});
}

ordered_json step_json(const StepRate& step, const DeviceRates& rates) {
  ordered_json out = {{"step", step.step},
                      {"rows", step.rows},
                      {"bytes", step.bytes},
                      {"multiply_adds", step.multiply_adds},
                      {"seconds", step.seconds}};
  if (!step.kernels.empty()) out["kernels"] = step.kernels;
  if (step.rows > 1) {
    out["multiply_adds_per_second"] = step.multiply_adds_per_second();
    out["share"] = step.multiply_adds_per_second() / rates.multiply_adds_per_second;
  } else {
    out["bytes_per_second"] = step.bytes_per_second();
    out["share"] = step.bytes_per_second() / rates.bytes_per_second;
  }
  return out;
}

ordered_json row_json(const KernelRow& row) {
  ordered_json out = {
      {"kernel", row.kernel}, {"steps", row.steps}, {"calls", row.calls}, {"seconds", row.seconds}};
  if (row.floor_seconds == 0) return out;
  out["floor_bytes"] = row.floor.bytes;
  out["floor_multiply_adds"] = row.floor.multiply_adds;
  out["floor_seconds"] = row.floor_seconds;
  out["bound"] = row.by_arithmetic ? "arithmetic" : "reading";
  out["share"] = row.share();
  return out;
}

ordered_json table_json(const KernelTable& table) {
  ordered_json out = {{"rows", table.shape.rows},
                      {"position", table.shape.position},
                      {"pass_seconds", table.pass_seconds},
                      {"sum_seconds", table.sum_seconds},
                      {"floor_seconds", table.floor_seconds},
                      {"kernels", ordered_json::array()}};
  for (const KernelRow& row : table.rows) out["kernels"].push_back(row_json(row));
  return out;
}

ordered_json limits_json(const BackendLimits& limits) {
  ordered_json out = {{"rates",
                       {{"bytes_per_second", limits.rates.bytes_per_second},
                        {"multiply_adds_per_second", limits.rates.multiply_adds_per_second}}},
                      {"launches",
                       {{"pass_seconds", limits.launches.pass_seconds},
                        {"dependent_seconds", limits.launches.dependent_seconds},
                        {"independent_seconds", limits.launches.independent_seconds}}},
                      {"steps", ordered_json::array()},
                      {"decode", table_json(limits.decode)}};
  for (const StepRate& step : limits.steps) out["steps"].push_back(step_json(step, limits.rates));
  for (const KernelTable& table : limits.prefill) out["prefill"] = table_json(table);
  return out;
}

std::string steps_text(const BackendLimits& limits) {
  std::string text = fmt::format(
      "held to      {:9.2f} GB/s, {:.1f} G multiply-adds/s\n"
      "launches     {:9.2f} us a pass of one, {:.2f} us more for one that waits, {:.2f} us for one "
      "that does not\n",
      limits.rates.bytes_per_second / 1e9, limits.rates.multiply_adds_per_second / 1e9,
      1e6 * limits.launches.pass_seconds, 1e6 * limits.launches.dependent_seconds,
      1e6 * limits.launches.independent_seconds);
  for (const StepRate& step : limits.steps) {
    const ordered_json json = step_json(step, limits.rates);
    const bool many = step.rows > 1;
    text += fmt::format("{:<44}{:5}{:10.1f} MB{:10.3f} ms{:10.1f} {}{:5.0f} %  {}\n", step.step,
                        step.rows > 0 ? std::to_string(step.rows) : "",
                        static_cast<double>(step.bytes) / 1e6, 1e3 * step.seconds,
                        (many ? step.multiply_adds_per_second() : step.bytes_per_second()) / 1e9,
                        many ? "G/s " : "GB/s", 100 * json["share"].get<double>(), step.kernels);
  }
  return text;
}

std::string table_text(const KernelTable& table) {
  std::string text = fmt::format(
      "\n{} row{} at {}: {:.3f} ms, its kernels one by one {:.3f} ms, their floors {:.3f} ms\n"
      "{:<28}{:<36}{:>6}{:>11}{:>11}{:>11}{:>8}\n",
      table.shape.rows, table.shape.rows == 1 ? "" : "s", table.shape.position,
      1e3 * table.pass_seconds, 1e3 * table.sum_seconds, 1e3 * table.floor_seconds, "kernel", "for",
      "calls", "us a call", "MB", "G madds", "share");
  for (const KernelRow& row : table.rows) {
    text += fmt::format("{:<28}{:<36}{:>6}{:>11.2f}", row.kernel, row.steps, row.calls,
                        1e6 * row.seconds / row.calls);
    if (row.floor_seconds > 0) {
      text += fmt::format("{:>11.3f}{:>11.4f}{:>6.0f} %{}", row.floor.bytes / 1e6 / row.calls,
                          row.floor.multiply_adds / 1e9 / row.calls, 100 * row.share(),
                          row.by_arithmetic ? " *" : "");
    }
    text += "\n";
  }
  return text;
}

std::string limits_text(const BackendLimits& limits) {
  std::string text = steps_text(limits) + table_text(limits.decode);
  for (const KernelTable& table : limits.prefill) text += table_text(table);
  return text +
         "MB and G madds: the floor of a call. share: of the floor's time; * by arithmetic, else "
         "by reading.\n";
}

}  // namespace

Result<int> execute(const LimitsFlags& flags) {
  LILY_TRY(const auto backend, backend_of(flags));
  LILY_TRY(const auto weights, weights_of(flags, backend->info().layout));
  const auto read_bytes = static_cast<std::size_t>(flags.mebibytes) << 20;
  print_note("measuring the machine ...\n");
  LILY_TRY(const auto machine,
           measure_limits({.threads = flags.threads, .isa = flags.isa, .bytes = read_bytes}));
  LILY_TRY(const auto limits,
           measure_backend(*backend, weights, machine,
                           {.read_bytes = read_bytes,
                            .rows = flags.rows,
                            .depth = flags.depth,
                            .repeats = flags.repeat,
                            .on_part = [](std::string_view what) {
                              print_note(fmt::format("measuring {} ...\n", what));
                            }}));
  const Provenance here = provenance_here(&backend->info(), flags.given);
  if (flags.json) {
    ordered_json out = ordered_json::parse(machine_limits_json(machine));
    out["provenance"] = ordered_json::parse(provenance_json(here));
    out.update(limits_json(limits));
    print_out(out.dump(2) + "\n");
  } else {
    print_out(provenance_text(here) + machine_limits_table(machine) + limits_text(limits));
  }
  return 0;
}

}  // namespace lily::cli
