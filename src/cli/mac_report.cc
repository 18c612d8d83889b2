// The report's parts: the machine, compiling, kernels, answers, speed. A part that fails is told
// and the next one goes on.
#include "cli/mac_report.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "backend/gpu/gpu_backend.h"
#include "backend/gpu/metal/acceptance.h"
#include "backend/gpu/metal/open.h"
#include "backend/gpu/twin_device.h"
#include "cli/machine.h"
#include "cli/model_source.h"
#include "cli/terminal.h"
#include "engine/golden.h"
#include "engine/step_check.h"
#include "measure/step_rates.h"
#include "weights/synth_config.h"

namespace lily::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kStoredLimit = 1u << 20;
constexpr int kReportContext = 256;
// Of floats, as a share of the largest of what a launch writes. Of the stand-ins for a bf16, which
// may fall to either side, half a unit is 2^-9 of a number.
constexpr double kWorstDifference = 0x1p-7;
constexpr int kRepeats = 20;

struct Part {
  ordered_json json;
  std::string text;
  bool passed = true;
};

Part failed_part(const Error& error) {
  return {{{"error", error.message}}, "  " + error.message + "\n", false};
}

Part machine_part() {
  const auto facts = gpu::metal::machine_facts();
  if (!facts) return failed_part(facts.error());
  const Machine m = describe_machine();
  utsname system{};
  uname(&system);
  Part part;
  part.json = {{"cpu", m.cpu},
               {"cores", m.cores},
               {"memory_bytes", m.memory_bytes},
               {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
               {"gpu", facts->gpu},
               {"families", facts->families},
               {"languages", facts->languages},
               {"max_buffer_bytes", facts->max_buffer_bytes},
               {"working_set_bytes", facts->working_set_bytes}};
  for (const auto& [name, value] : part.json.items())
    part.text += fmt::format("  {:<20}{}\n", name, value.dump());
  return part;
}

// Languages that the system does not have, and the tile layer that the device does not take, are
// told and no failure.
Part compile_part() {
  const auto rows = gpu::metal::compile_everything();
  const auto facts = gpu::metal::machine_facts();
  if (!rows || !facts) return failed_part(rows ? facts.error() : rows.error());
  Part part;
  part.json = ordered_json::array();
  for (const auto& row : *rows) {
    const bool needed =
        std::count(facts->languages.begin(), facts->languages.end(), row.language) > 0;
    part.passed &= row.error.empty() || !needed;
    part.json.push_back({{"file", row.file},
                         {"language", row.language},
                         {"needed", needed},
                         {"kernels", row.n_kernels},
                         {"seconds", row.seconds},
                         {"error", row.error}});
    part.text += fmt::format("  {:<44}{:<24}{:>3} kernels {:6.3f} s  {}\n", row.file, row.language,
                             row.n_kernels, row.seconds,
                             row.error.empty() ? ""
                             : needed          ? "FAILED: " + row.error
                                               : "(not needed here) " + row.error);
  }
  return part;
}

Result<std::unique_ptr<Backend>> open_twin(gpu::Comparisons& comparisons,
                                           const Mechanisms& mechanisms = {}) {
  LILY_TRY(auto judge, gpu::EmulatorDevice::create({}));
  LILY_TRY(auto metal, gpu::metal::open_device());
  return std::make_unique<gpu::GpuBackend>(
      std::make_unique<gpu::TwinDevice>(std::move(judge), std::move(metal), comparisons),
      mechanisms);
}

struct CheckedRun {
  int chunk_tokens;
  int n_tokens;
  Mechanisms mechanisms = {};
};
bool is_plain(const CheckedRun& run) { return run.mechanisms == Mechanisms{}; }

constexpr Mechanisms kDecodeApart{.fused_experts_up = false,
                                  .fused_experts_down = false,
                                  .fused_query_key = false,
                                  .fused_scan_norm = false,
                                  .packed_attention = false,
                                  .fused_head_choose = false};
// Few rows, many, and the forms between; then the other ways that a prompt can be computed.
constexpr CheckedRun kCheckedRuns[] = {
    {64, 2},
    {8, 2},
    {4, 2},
    {2, 2},
    {1, 2},
    {1, 2, kDecodeApart},
    {4, 1, kDecodeApart},
    {64, 1, kDecodeApart},
    {64, 1, {.register_state = false}},
    {64, 1, {.matrix_units = false}},
    {64, 1, {.large_tiles = true}},
    {64, 1, {.large_tiles = true, .matrix_units = false}},
    {64, 1, {.dequantise_in_tile = false}},
    {64, 1, {.dequantise_in_tile = false, .matrix_units = false}}};

Result<std::unique_ptr<Engine>> open_checked(gpu::Comparisons& comparisons, const CheckedRun& run) {
  EngineOptions options;
  LILY_TRY(options.model, model_folder({}));
  options.make_backend = [&comparisons, &run] { return open_twin(comparisons, run.mechanisms); };
  options.chunk_tokens = run.chunk_tokens;
  options.context_tokens = kReportContext;
  options.n_checkpoints = is_plain(run) ? 1 : 0;
  options.pack = false;
  return Engine::open(options);
}

// Steps in forms that the pocket does not take: four heads that share a key, a prompt's states for
// drafting, copies.
Result<void> run_checked_steps(gpu::Comparisons& comparisons) {
  LILY_TRY(auto spec, synthetic_spec("pocket", 0));
  spec.n_q_heads = 4 * spec.n_kv_heads;
  LILY_TRY(const auto backend, open_twin(comparisons));
  LILY_RETURN_IF_ERROR(backend->prepare(spec, 1));
  return check_steps(*backend, spec);
}

// Greedy and drawn, with scores.
Result<void> run_checked(gpu::Comparisons& comparisons, const CheckedRun& run) {
  LILY_TRY(const auto engine, open_checked(comparisons, run));
  auto question =
      engine->tokenizer().encode_plain("What is the capital of France, of Japan, of Peru?");
  question.resize(std::min<std::size_t>(
      question.size(), run.chunk_tokens > 8 ? 12 : static_cast<std::size_t>(run.chunk_tokens)));
  GenerateRequest request{
      .prompt = question, .sampling = {.temperature = 0.0f}, .max_tokens = run.n_tokens};
  // A state that is kept cuts the prompt there.
  const bool plain = is_plain(run);
  if (plain) request.borders = {static_cast<int>(question.size()) / 2};
  if (run.chunk_tokens == 8)
    request.sampling = {
        .temperature = 0.8f, .top_p = 0.95f, .top_k = 20, .repetition_penalty = 1.1f, .seed = 1};
  LILY_RETURN_IF_ERROR(engine->session().generate(request));
  if (plain && run.chunk_tokens > 8)
    LILY_RETURN_IF_ERROR(engine->score({.ids = question, .n_top = 2}));
  return {};
}

Result<void> run_all_checked(gpu::Comparisons& comparisons) {
  for (const CheckedRun& run : kCheckedRuns) LILY_RETURN_IF_ERROR(run_checked(comparisons, run));
  return run_checked_steps(comparisons);
}

// {"kernel": [words of its first output]}: models/pocket/gpu_kernels.json, made by
// tools/kernel_results.py from a report.
Result<ordered_json> stored_results() {
  LILY_TRY(const auto folder, model_folder({}));
  LILY_TRY(const auto text, read_file(folder / "gpu_kernels.json", kStoredLimit));
  auto parsed = ordered_json::parse(text, nullptr, false);
  if (parsed.is_object()) return parsed;
  return Error{ErrorCode::kCorrupt, "gpu_kernels.json: expected an object"};
}

// How far the words of an output are from the stored ones, infinitely where they are other words;
// -1 where none are stored.
double distance(const ordered_json& stored, const std::string& kernel,
                const std::vector<std::uint32_t>& found, bool bf16) {
  if (!stored.contains(kernel)) return -1;
  const auto words = stored[kernel].get<std::vector<std::uint32_t>>();
  if (words.size() != found.size()) return HUGE_VAL;
  gpu::KernelComparison comparison;
  gpu::compare_words(words, found, bf16, comparison);
  return comparison.n_different > 0 ? HUGE_VAL : comparison.worst;
}

// "0.001", "none"
std::string distance_text(double distance) {
  return distance < 0 ? "none" : fmt::format("{:.2g}", distance);
}

Part kernel_row(const std::string& kernel, const gpu::KernelComparison& c,
                const ordered_json& stored) {
  const double here = distance(stored, kernel, c.expected, c.samples_are_bf16),
               metal = distance(stored, kernel, c.found, c.samples_are_bf16);
  const bool right = c.n_different == 0 && std::max({c.worst, here, metal}) <= kWorstDifference;
  return {{{"right", right},
           {"launches", c.n_launches},
           {"words", c.n_words},
           {"different", c.n_different},
           {"worst", c.worst},
           {"emulator_to_stored", here},
           {"metal_to_stored", metal},
           {"expected", c.expected},
           {"found", c.found}},
          fmt::format("  {:<32}{}  {} launches, {} words, {} differ, worst {:.2g}; to stored: "
                      "emulator {}, Metal {}\n",
                      kernel, right ? "right" : "WRONG", c.n_launches, c.n_words, c.n_different,
                      c.worst, distance_text(here), distance_text(metal)),
          right};
}

Part kernels_part() {
  gpu::Comparisons comparisons;
  if (const auto ran = run_all_checked(comparisons); !ran) return failed_part(ran.error());
  const auto stored = stored_results();
  if (!stored) return failed_part(stored.error());
  Part part;
  for (const gpu::Kernel& kernel : gpu::kernels()) {
    const auto found = comparisons.find(kernel.name);
    const Part row =
        found == comparisons.end()
            ? Part{"not tried",
                   fmt::format("  {:<32}not tried: no step of these passes uses it\n", kernel.name)}
            : kernel_row(kernel.name, found->second, *stored);
    part.json[kernel.name] = row.json;
    part.text += row.text;
    part.passed &= row.passed;
  }
  return part;
}

Result<std::unique_ptr<Engine>> open_metal() {
  EngineFlags flags;
  flags.backend = "metal";
  flags.no_pack = true;
  flags.context_tokens = kReportContext;
  return open_engine(flags, {.quiet = true});
}

bool answers_as_recorded(Engine& engine, const GoldenRow& row) {
  GenerateRequest request{.prompt = {row.ids.begin(), row.ids.begin() + row.prompt_length},
                          .sampling = {.temperature = 0.0f},
                          .max_tokens = static_cast<int>(row.greedy.size())};
  const auto answer = engine.session().generate(request);
  return answer &&
         std::equal(answer->tokens.begin(), answer->tokens.end(), row.greedy.begin(),
                    row.greedy.begin() + static_cast<std::ptrdiff_t>(
                                             std::min(answer->tokens.size(), row.greedy.size()))) &&
         answer->tokens.size() + 1 >= row.greedy.size();
}

// Greedy answers that transformers gave for the same weights.
Part answers_part(int n_answers) {
  const auto engine = open_metal();
  if (!engine) return failed_part(engine.error());
  const auto folder = model_folder({});
  if (!folder) return failed_part(folder.error());
  const auto rows = read_golden(*folder / "../../tests/golden/answers.json",
                                static_cast<int>((*engine)->tokenizer().n_ids()));
  if (!rows) return failed_part(rows.error());
  int n_asked = 0, n_equal = 0;
  ordered_json different = ordered_json::array();
  for (const GoldenRow& row : *rows) {
    if (row.greedy.empty() || row.prompt_length < 1 ||
        row.prompt_length + static_cast<int>(row.greedy.size()) > kReportContext)
      continue;
    if (n_asked == n_answers) break;
    ++n_asked;
    if (answers_as_recorded(**engine, row)) {
      ++n_equal;
    } else {
      different.push_back(row.name);
    }
  }
  return {{{"asked", n_asked}, {"equal", n_equal}, {"different", different}},
          fmt::format("  {} of {} recorded answers token for token\n", n_equal, n_asked),
          n_asked > 0 && n_equal == n_asked};
}

Part speed_part(const std::string& shape) {
  const auto spec = synthetic_spec(shape, 0);
  if (!spec) return failed_part(spec.error());
  const auto backend = open_backend("metal", {});
  if (!backend) return failed_part(backend.error());
  const auto rates = measure_steps(**backend, *spec, {.repeats = kRepeats});
  if (!rates) return failed_part(rates.error());
  Part part;
  part.json["shape"] = shape;
  const double most = rates->front().bytes_per_second();
  for (const auto& r : *rates) {
    part.json["steps"].push_back({{"step", r.step},
                                  {"bytes", r.bytes},
                                  {"seconds", r.seconds},
                                  {"bytes_per_second", r.bytes_per_second()},
                                  {"share_of_copy", r.bytes_per_second() / most}});
    part.text +=
        fmt::format("  {:<34}{:8.1f} MB {:8.3f} ms {:8.1f} GB/s {:5.0f} % of a copy's rate\n",
                    r.step, static_cast<double>(r.bytes) / 1e6, 1e3 * r.seconds,
                    r.bytes_per_second() / 1e9, 100 * r.bytes_per_second() / most);
  }
  return part;
}

Result<void> write_text(const Path& path, const std::string& text) {
  LILY_TRY(auto file, AtomicFile::create(path));
  LILY_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace

Result<int> write_mac_report(const DoctorFlags& flags) {
  // Without Metal there is nothing to report.
  LILY_RETURN_IF_ERROR(gpu::metal::machine_facts());
  const std::pair<const char*, std::function<Part()>> parts[] = {
      {"machine", machine_part},
      {"compile", compile_part},
      {"kernels", kernels_part},
      {"answers", [&] { return answers_part(flags.n_answers); }},
      {"speed", [&] { return speed_part(flags.spec.empty() ? "35b" : flags.spec); }}};
  ordered_json object{{"lily", LILY_VERSION}};
  std::string text = fmt::format("Lily {} on Metal\n", LILY_VERSION);
  bool passed = true;
  for (const auto& [name, make] : parts) {
    print_note(fmt::format("{} ...\n", name));
    const Part part = make();
    passed &= part.passed;
    object[name] = {{"passed", part.passed}, {"found", part.json}};
    text += fmt::format("\n{}: {}\n{}", name, part.passed ? "passed" : "FAILED", part.text);
  }
  object["passed"] = passed;
  const auto json = object.dump(1, ' ', false, ordered_json::error_handler_t::replace);
  LILY_RETURN_IF_ERROR(write_text(flags.mac_report, text + "\nThe same as JSON:\n" + json + "\n"));
  print_out(text);
  return passed ? 0 : 1;
}

}  // namespace lily::cli
