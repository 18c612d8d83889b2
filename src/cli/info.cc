// lily info: what a checkpoint is, what it weighs, whether it fits this machine and whether it is
// packed.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/memory_plan.h"
#include "cli/model_source.h"
#include "cli/terminal.h"
#include "weights/inspect.h"

namespace lily::cli {
namespace {

using nlohmann::ordered_json;

ordered_json parts_json(const CheckpointSummary& s) {
  ordered_json list = ordered_json::array();
  for (const auto& part : s.parts) {
    list.push_back(
        {{"name", part.name}, {"parameters", part.parameters}, {"bytes", part.source_bytes}});
  }
  return list;
}

ordered_json left_out_json(const CheckpointSummary& s) {
  ordered_json list = ordered_json::array();
  for (const auto& item : s.left_out)
    list.push_back({{"name", item.name}, {"tensors", item.tensors}, {"bytes", item.bytes}});
  return list;
}

ordered_json images_json(const CheckpointSummary& s) {
  ordered_json list = ordered_json::array();
  for (const auto& image : s.images) {
    list.push_back({{"layout", layout_name(image.layout)},
                    {"path", image.path.string()},
                    {"bytes", image.bytes},
                    {"usable", image.bytes > 0 && image.problem.empty()},
                    {"problem", image.problem}});
  }
  return list;
}

ordered_json shape_json(const ModelSpec& spec) {
  return {{"layers", spec.n_layers},
          {"delta_layers", spec.count(LayerKind::kDelta)},
          {"attention_layers", spec.count(LayerKind::kAttention)},
          {"hidden", spec.hidden},
          {"experts", spec.n_experts},
          {"chosen_experts", spec.n_chosen},
          {"expert_width", spec.expert_width},
          {"vocabulary", spec.vocab_rows},
          {"context_tokens", spec.max_context}};
}

std::string as_json(const Path& folder, const CheckpointSummary& s, const MemoryPlan& plan) {
  const ordered_json out = {{"model", folder.string()},
                            {"shape", shape_json(s.config.spec)},
                            {"parameters", s.parameters},
                            {"active_parameters", s.active_parameters},
                            {"bytes", s.source_bytes},
                            {"image_bytes", s.image_bytes},
                            {"state_bytes", s.state_bytes},
                            {"kv_bytes_per_token", s.kv_bytes_per_token},
                            {"parts", parts_json(s)},
                            {"left_out", left_out_json(s)},
                            {"images", images_json(s)},
                            {"plan", ordered_json::parse(plan_json(plan, machine_memory_bytes()))}};
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string millions(std::uint64_t n) {
  return n >= 1'000'000'000 ? fmt::format("{:.2f} G", static_cast<double>(n) / 1e9)
                            : fmt::format("{:.1f} M", static_cast<double>(n) / 1e6);
}

std::string image_line(const ImageState& image) {
  const auto name = layout_name(image.layout);
  if (image.bytes == 0) return fmt::format("  {:<16}not packed yet\n", name);
  const auto state = image.problem.empty() ? "ready" : "will be packed again: " + image.problem;
  return fmt::format("  {:<16}{:>9}  {} ({})\n", name, human_bytes(image.bytes), state,
                     image.path.string());
}

std::string as_table(const Path& folder, const CheckpointSummary& s, const MemoryPlan& plan) {
  const ModelSpec& spec = s.config.spec;
  std::string out = folder.string() + "\n";
  out += fmt::format(
      "Qwen3.6 MoE: {} layers ({} delta, {} attention), hidden {}, {} experts of which {} and a "
      "shared one run\n",
      spec.n_layers, spec.count(LayerKind::kDelta), spec.count(LayerKind::kAttention), spec.hidden,
      spec.n_experts, spec.n_chosen);
  out += fmt::format("{} parameters, {} active; vocabulary {}, context {} tokens\n\n",
                     millions(s.parameters), millions(s.active_parameters), spec.vocab_rows,
                     spec.max_context);
  out += fmt::format("language model: {} in the checkpoint, {} packed\n", human_bytes(s.source_bytes),
                     human_bytes(s.image_bytes));
  for (const auto& part : s.parts)
    out += fmt::format("  {:<24}{:>9}  {} parameters\n", part.name, human_bytes(part.source_bytes),
                       millions(part.parameters));
  if (!s.left_out.empty()) out += "\nleft out:\n";
  for (const auto& item : s.left_out)
    out += fmt::format("  {:<24}{:>9}  {} tensors\n", item.name, human_bytes(item.bytes), item.tensors);
  out += "\npacked images:\n";
  for (const auto& image : s.images) out += image_line(image);
  return out + "\nmemory on this machine:\n" + plan_table(plan, machine_memory_bytes());
}

}  // namespace

Result<int> execute(const InfoFlags& flags) {
  LILY_TRY(const auto folder, model_folder(flags.model));
  LILY_TRY(const auto summary, inspect(folder));
  const auto plan = plan_memory(summary.config.spec, {.memory_bytes = machine_memory_bytes(),
                                                      .weight_bytes = summary.image_bytes});
  print_out(flags.json ? as_json(folder, summary, plan) : as_table(folder, summary, plan));
  return 0;
}

}  // namespace lily::cli
