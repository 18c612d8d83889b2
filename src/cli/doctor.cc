// lily doctor: the machine, the backends, the memory plan, the packed image and a self-test, in one
// look.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/mac_report.h"
#include "cli/machine.h"
#include "cli/memory_plan.h"
#include "cli/model_source.h"
#include "cli/self_test.h"
#include "cli/terminal.h"
#include "weights/inspect.h"
#include "weights/manifest.h"
#include "weights/synth_config.h"

namespace lily::cli {
namespace {

using nlohmann::ordered_json;

constexpr WeightLayout kCpuLayout = WeightLayout::kInterleaved16;

// A finding: its part of the JSON object, its lines of the table, and the exit status it asks for.
struct Section {
  ordered_json json;
  std::string table;
  int status = 0;
};

Section failed(const Error& error) {
  return {{{"error", error.message}}, "  " + error.message + "\n", exit_status(error.code)};
}

Section machine_section() {
  const Machine m = describe_machine();
  Section out;
  out.json = {{"cpu", m.cpu},
              {"cores", m.cores},
              {"memory_bytes", m.memory_bytes},
              {"cache_folder", m.cache_folder.string()},
              {"cache_writable", m.cache_writable},
              {"disk_free_bytes", m.disk_free_bytes}};
  out.table =
      fmt::format("  {}, {} cores usable, {} of memory\n",
                  m.cpu.empty() ? "unknown processor" : m.cpu, m.cores, human_bytes(m.memory_bytes));
  out.table += fmt::format("  cache folder {}: {}, {} free\n",
                           m.cache_folder.empty() ? "(none)" : m.cache_folder.string(),
                           m.cache_writable ? "writable" : "not writable", human_bytes(m.disk_free_bytes));
  return out;
}

Section backends_section() {
  Section out;
  out.json = ordered_json::array();
  for (const std::string_view listed : kBackendNames) {
    const std::string name(listed);
    const auto backend = open_backend(name, {});
    const std::string words = backend ? (*backend)->info().description : backend.error().message;
    out.json.push_back(
        {{"name", name}, {"available", backend.has_value()}, {"description", words}});
    out.table += fmt::format("  {:<12}{}\n", name, words);
  }
  return out;
}

// What `run` and `chat` do when no option says otherwise.
Section options_section() {
  const EngineFlags flags;
  Section out;
  out.json = {{"backend", flags.backend},
              {"activations", "int8"},
              {"chunk_tokens", flags.chunk_tokens},
              {"pack", true}};
  out.table =
      fmt::format("  --backend {} --chunk {}, activations in 8 bits, packed weights are kept\n",
                  flags.backend, flags.chunk_tokens);
  return out;
}

struct PlanInput {
  std::string what;
  ModelSpec spec;
  std::uint64_t weight_bytes = 0;
};

// A named shape needs no files: the size of its image follows from its configuration.
Result<PlanInput> input_of_spec(const std::string& name) {
  LILY_TRY(const auto spec, synthetic_spec(name, 0));
  LILY_TRY(const auto config,
           parse_config(synthetic_config(spec), synthetic_generation_config(spec)));
  return PlanInput{name, config.spec, plan_image(manifest(config), kCpuLayout, 0).data_bytes};
}

Result<PlanInput> plan_input(const DoctorFlags& flags) {
  if (!flags.spec.empty()) return input_of_spec(flags.spec);
  LILY_TRY(const auto folder, model_folder(flags.model));
  LILY_TRY(auto summary, inspect(folder));
  return PlanInput{folder.string(), std::move(summary.config.spec), summary.image_bytes};
}

Section plan_section(const DoctorFlags& flags, std::uint64_t memory_bytes) {
  const auto input = plan_input(flags);
  if (!input) return failed(input.error());
  const auto plan = plan_memory(input->spec, {.memory_bytes = memory_bytes,
                                              .weight_bytes = input->weight_bytes,
                                              .context_tokens = flags.context_tokens,
                                              .chunk_tokens = EngineFlags{}.chunk_tokens});
  Section out;
  out.json = ordered_json::parse(plan_json(plan, memory_bytes));
  out.json["model"] = input->what;
  out.table = "  " + input->what + "\n" + plan_table(plan, memory_bytes);
  return out;
}

Section verify_section(const Path& folder) {
  const auto report = verify_image(folder, {.layout = kCpuLayout, .cache_folder = {}});
  if (!report) return failed(report.error());
  Section out;
  out.json = {{"path", report->image.string()},
              {"bytes", report->bytes},
              {"blocks", report->blocks},
              {"bad_blocks", report->bad_blocks},
              {"bad_tensors", report->bad_tensors},
              {"source_matches", report->source_matches},
              {"good", report->good()}};
  out.table = fmt::format("  {}: {} blocks, {} damaged; made from {} files\n",
                          report->image.string(), report->blocks, report->bad_blocks.size(),
                          report->source_matches ? "these" : "other");
  for (const auto& name : report->bad_tensors) out.table += "  damaged: " + name + "\n";
  if (!report->good()) out.table += "  delete the image: the next start makes it anew\n";
  out.status = report->good() ? 0 : exit_status(ErrorCode::kCorrupt);
  return out;
}

Section image_section(const DoctorFlags& flags) {
  if (!flags.spec.empty()) return {nullptr, "  a shape has none\n"};
  const auto folder = model_folder(flags.model);
  if (!folder) return failed(folder.error());
  if (flags.verify) return verify_section(*folder);
  const auto summary = inspect(*folder);
  if (!summary) return failed(summary.error());
  Section out;
  for (const auto& image : summary->images) {
    if (image.layout != kCpuLayout) continue;
    const bool usable = image.bytes > 0 && image.problem.empty();
    out.json = {{"path", image.path.string()},
                {"bytes", image.bytes},
                {"usable", usable},
                {"problem", image.problem}};
    out.table = image.bytes == 0 ? "  not packed yet: the first start does it\n"
                                 : fmt::format("  {}: {}, {}\n", image.path.string(),
                                               human_bytes(image.bytes), usable ? "ready" : image.problem);
  }
  return out;
}

Section self_test_section() {
  Section out;
  bool all = true;
  ordered_json rows = ordered_json::array();
  for (const auto& row : run_self_test()) {
    all = all && row.passed;
    rows.push_back({{"backend", row.backend}, {"passed", row.passed}, {"detail", row.detail}});
    out.table +=
        fmt::format("  {:<12}{}  {}\n", row.backend, row.passed ? "right" : "WRONG", row.detail);
  }
  out.json = {{"passed", all}, {"tests", std::move(rows)}};
  out.status = all ? 0 : 1;
  return out;
}

}  // namespace

Result<int> execute(const DoctorFlags& flags) {
  if (!flags.mac_report.empty()) return write_mac_report(flags);
  std::uint64_t memory_bytes = machine_memory_bytes();
  if (!flags.memory.empty()) {
    LILY_TRY(memory_bytes, parse_size(flags.memory));
  }
  const std::pair<const char*, Section> sections[] = {
      {"machine", machine_section()},  {"backends", backends_section()},
      {"options", options_section()},  {"plan", plan_section(flags, memory_bytes)},
      {"image", image_section(flags)}, {"self_test", self_test_section()}};
  ordered_json object;
  std::string table;
  int status = 0;
  for (const auto& [name, section] : sections) {
    object[name] = section.json;
    table += std::string(name) + "\n" + section.table;
    if (status == 0) status = section.status;
  }
  print_out(flags.json ? object.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n"
                       : table);
  return status;
}

}  // namespace lily::cli
