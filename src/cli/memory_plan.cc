// Sizes as words, and the memory plan as a table and as JSON.
#include "cli/memory_plan.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"

namespace lily::cli {
namespace {

Error bad_size(const std::string& text) {
  return {ErrorCode::kInvalidArgument,
          "--memory: '" + text + "', expected a size such as 24G, 24GiB or 16000M"};
}

std::string row(const char* name, std::uint64_t bytes, const std::string& remark = "") {
  return fmt::format("  {:<18}{:>9}{}\n", name, human_bytes(static_cast<double>(bytes)),
                     remark.empty() ? "" : "  " + remark);
}

}  // namespace

Result<std::uint64_t> parse_size(const std::string& text) {
  char* end = nullptr;
  const double number = text.empty() || !std::isdigit(static_cast<unsigned char>(text[0]))
                            ? -1.0
                            : std::strtod(text.c_str(), &end);
  if (!(number > 0)) return bad_size(text);
  std::string unit(end);
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto prefix = std::string("BKMGT").find(unit.empty() ? 'B' : unit[0]);
  const std::string rest = unit.size() > 1 ? unit.substr(1) : "";
  if (prefix == std::string::npos ||
      !(rest.empty() || (prefix > 0 && (rest == "IB" || rest == "B"))))
    return bad_size(text);
  const double bytes =
      number * std::pow(rest == "B" ? 1000.0 : 1024.0, static_cast<double>(prefix));
  if (!(bytes >= 1.0 && bytes < 0x1p60)) return bad_size(text);
  return static_cast<std::uint64_t>(bytes);
}

std::string plan_table(const MemoryPlan& plan, std::uint64_t memory_bytes) {
  std::string out = row("memory", memory_bytes);
  out += row("weights", plan.weights);
  out += row("state", plan.state);
  out += row("cache", plan.kv,
             fmt::format("{} bytes a token, {} tokens", plan.kv_per_token, plan.context_tokens));
  out += row("scratch", plan.scratch);
  out += row("left to the system", plan.reserve);
  out += row("total", plan.total);
  if (plan.fits)
    return out + fmt::format("  it fits, with a context of {} tokens\n", plan.context_tokens);
  return out + fmt::format("  it does not fit: {} short\n  what would help: {}\n",
                           human_bytes(static_cast<double>(plan.missing)), plan.advice);
}

std::string plan_json(const MemoryPlan& plan, std::uint64_t memory_bytes) {
  const nlohmann::ordered_json out = {{"fits", plan.fits},
                                      {"memory_bytes", memory_bytes},
                                      {"weights_bytes", plan.weights},
                                      {"state_bytes", plan.state},
                                      {"kv_bytes_per_token", plan.kv_per_token},
                                      {"context_tokens", plan.context_tokens},
                                      {"kv_bytes", plan.kv},
                                      {"scratch_bytes", plan.scratch},
                                      {"reserve_bytes", plan.reserve},
                                      {"total_bytes", plan.total},
                                      {"missing_bytes", plan.missing},
                                      {"advice", plan.advice}};
  return out.dump();
}

}  // namespace lily::cli
