// lily bench ablate: what can be switched on this backend, measured with and without.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/terminal.h"
#include "measure/ablation_record.h"
#include "measure/provenance.h"

namespace lily::cli {
namespace {

// On a GPU mechanisms are switched inside one engine.
std::vector<AblationCase> gpu_cases(Engine& engine, const Mechanisms& base) {
  const auto use = [&engine](const Mechanisms& mechanisms) -> Result<Engine*> {
    LILY_RETURN_IF_ERROR(engine.set_mechanisms(mechanisms));
    return &engine;
  };
  std::vector<AblationCase> out = {
      {kControlName, "", true, [use, base](bool) { return use(base); }}};
  for (const auto& [name, field] : kMechanismFields) {
    out.push_back({std::string(name), "off", base.*field, [use, base, field = field](bool with) {
                     Mechanisms mechanisms = base;
                     mechanisms.*field = with;
                     return use(mechanisms);
                   }});
  }
  return out;
}

// On a CPU there are two engines over the same image.
AblationCase cpu_case(Engine& engine, std::string name, std::string without, EngineFlags other) {
  const auto opened = std::make_shared<std::unique_ptr<Engine>>();
  return {std::move(name), std::move(without), true,
          [&engine, other = std::move(other), opened](bool with) -> Result<Engine*> {
            if (with) return &engine;
            if (*opened == nullptr) {
              LILY_TRY(*opened, open_engine(other, {.quiet = true}));
            }
            return opened->get();
          }};
}

// Instruction sets that this processor has beside the one in use, and 8-bit activations.
std::vector<AblationCase> cpu_cases(Engine& engine, const EngineFlags& flags) {
  std::vector<AblationCase> out = {
      {kControlName, "", true, [&engine](bool) -> Result<Engine*> { return &engine; }}};
  for (const char* isa : {"avx2", "neon", "portable"}) {
    EngineFlags other = flags;
    other.isa = isa;
    const auto there = open_backend("cpu", {.threads = flags.threads, .isa = isa});
    if (!there || (*there)->info().description == engine.backend().description) continue;
    out.push_back(
        cpu_case(engine, fmt::format("more_than_{}", isa), fmt::format("--isa {}", isa), other));
  }
  if (!flags.exact) {
    EngineFlags other = flags;
    other.exact = true;
    out.push_back(cpu_case(engine, "int8_activations", "--exact", other));
  }
  return out;
}

Result<std::vector<AblationCase>> cases_of(Engine& engine, const AblateFlags& flags) {
  const std::string& backend = engine.backend().name;
  if (backend == "cpu") return cpu_cases(engine, flags.engine);
  if (backend == "reference")
    return Error{ErrorCode::kUnsupported, "backend 'reference' has nothing to switch"};
  LILY_TRY(const auto base, mechanisms_of(flags.engine.backend, flags.engine.mechanisms));
  return gpu_cases(engine, base);
}

// Those that were asked for, and the control.
Result<std::vector<AblationCase>> chosen(std::vector<AblationCase> cases,
                                         const std::vector<std::string>& only) {
  std::string known;
  for (const auto& one : cases) {
    if (one.name != kControlName) known.append(known.empty() ? "" : ", ").append(one.name);
  }
  for (const auto& name : only) {
    const auto is_it = [&](const AblationCase& one) { return one.name == name; };
    if (std::any_of(cases.begin(), cases.end(), is_it)) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--only '{}': expected some of {}", name, known)};
  }
  const auto unwanted = [&](const AblationCase& one) {
    return !only.empty() && one.name != kControlName &&
           std::find(only.begin(), only.end(), one.name) == only.end();
  };
  std::erase_if(cases, unwanted);
  return cases;
}

// What the context has room for; the rest is told.
Result<std::vector<SweepPoint>> points_of(const Engine& engine, const AblateFlags& flags) {
  std::vector<SweepPoint> wanted, out;
  for (const int n : flags.prefill) wanted.push_back({SweepKind::kPrefill, n, n});
  for (const int depth : flags.decode_tokens > 0 ? flags.depths : std::vector<int>{})
    wanted.push_back({SweepKind::kDecode, depth, flags.decode_tokens});
  for (const auto& point : wanted) {
    const int needed =
        point.kind == SweepKind::kPrefill ? point.length : point.length + point.tokens;
    if (needed < engine.context_tokens())
      out.push_back(point);
    else
      print_note(fmt::format("lily bench ablate: {} is left out, the context holds {}\n",
                             point_name(point), engine.context_tokens()));
  }
  if (!out.empty()) return out;
  return Error{ErrorCode::kInvalidArgument, "nothing to measure: no length and no depth"};
}

AblationRecord empty_record(const Engine& engine, const AblateFlags& flags,
                            const std::string& model) {
  const Provenance here = provenance_here(&engine.backend(), flags.given);
  const std::string processor = here.processor.empty() ? "" : here.processor + ", ";
  return {.model = fmt::format("{}, {} layers", model, engine.spec().layer_kinds.size()),
          .system = processor + here.description,
          .date = here.date,
          .provenance = provenance_json(here),
          .rounds = flags.rounds,
          .results = {}};
}

// A line for each mechanism when it is done; what is known so far is kept.
Result<void> measure_all(const std::vector<AblationCase>& cases, const AblationPlan& plan,
                         const Path& out, AblationRecord& record) {
  ProgressLine line(true);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    line.show(cases[i].name, static_cast<double>(i) / static_cast<double>(cases.size()),
              fmt::format("{} mechanisms", cases.size()));
    LILY_TRY(auto result, ablate(cases[i], plan));
    line.clear();
    print_note(fmt::format("{}: {:.1f} s{}\n", result.name, result.seconds,
                           result.error.empty() ? "" : ", " + result.error));
    record.results.push_back(std::move(result));
    if (!out.empty()) LILY_RETURN_IF_ERROR(write_ablation(out, record));
  }
  return {};
}

}  // namespace

Result<int> execute(const AblateFlags& flags) {
  if (!flags.out.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(flags.out, failed);
    if (failed) return system_error("making the folder " + flags.out.string(), failed.value());
  }
  LILY_TRY(const Path folder, model_folder(flags.engine.model));
  LILY_TRY(const auto engine, open_engine(flags.engine, {}));
  LILY_TRY(auto all, cases_of(*engine, flags));
  LILY_TRY(const auto cases, chosen(std::move(all), flags.only));
  LILY_TRY(auto points, points_of(*engine, flags));
  InterruptScope interrupt;
  auto record = empty_record(*engine, flags, model_name(folder));
  LILY_RETURN_IF_ERROR(measure_all(
      cases, {.points = std::move(points), .rounds = flags.rounds, .cancel = interrupt.flag()},
      flags.out, record));
  print_out(flags.json ? ablation_json(record) : ablation_text(record));
  return 0;
}

}  // namespace lily::cli
