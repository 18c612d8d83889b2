// Which bits each module has; see quant_config.h.
#include "weights/quant_config.h"

#include <fmt/format.h>

#include "weights/fields.h"

namespace lily {
namespace {

using Kind = JsonValue::Kind;

constexpr std::string_view kSupported = "MLX affine, 4 or 8 bits, groups of 64";

Error refused(std::string_view what) {
  return {ErrorCode::kUnsupported, fmt::format("config.json: {}; supported: {}; {}", what, kSupported, kWhatToGet)};
}

// A foreign method says its name in quant_method; MLX writes none.
Result<void> check_method(const JsonValue& object, std::string_view field) {
  const JsonValue* method = object.find("quant_method");
  if (!method || method->shown() == "'mlx'") return {};
  return refused(fmt::format("{}.quant_method: found {}", field, method->shown()));
}

// Bits of an object {"group_size", "bits", "mode"}; `where` names it.
Result<int> read_bits(const JsonValue& object, const std::string& where) {
  Fields fields(object, "config.json: " + where + ".");
  fields.fixed_word("mode", "affine");
  fields.fixed_number("group_size", kQuantGroup);
  if (!fields.find("group_size")) fields.refuse("group_size", "nothing", std::to_string(kQuantGroup));
  const int bits = fields.whole("bits", {1, 64});
  if (bits != 4 && bits != 8) fields.refuse("bits", std::to_string(bits), "4 or 8");
  if (auto outcome = fields.outcome(); !outcome.has_value()) {
    outcome.error().message += fmt::format("; {}", kWhatToGet);
    return std::move(outcome).error();
  }
  return bits;
}

bool outside_text(std::string_view module) {
  return module.substr(0, 6) == "vision" || module.substr(0, 4) == "mtp.";
}

Result<void> read_override(const JsonMember& member, const std::string& field, QuantTable& table) {
  const auto module = std::string(canonical_name(member.key));
  if (outside_text(module)) return {};
  const auto where = fmt::format("{}['{}']", field, printable(member.key));
  if (member.value.is(Kind::kBool)) {
    if (member.value.boolean) return {};
    return refused(where + ": found false (a module that is not quantised)");
  }
  if (!member.value.is(Kind::kObject)) return refused(where + ": found " + member.value.shown());
  LILY_TRY(table.overrides[module], read_bits(member.value, where));
  return {};
}

bool is_global_field(std::string_view key) {
  return key == "bits" || key == "group_size" || key == "mode" || key == "quant_method";
}

Result<QuantTable> read_table(const JsonValue& object, const std::string& field) {
  if (!object.is(Kind::kObject)) return refused(fmt::format("{}: found {}", field, object.shown()));
  LILY_RETURN_IF_ERROR(check_method(object, field));
  QuantTable table;
  LILY_TRY(table.default_bits, read_bits(object, field));
  for (const auto& member : object.members) {
    if (is_global_field(member.key)) continue;
    LILY_RETURN_IF_ERROR(read_override(member, field, table));
  }
  return table;
}

Error not_quantised(const JsonValue& root) {
  const JsonValue* text = root.find("text_config");
  const JsonValue* dtype = text ? text->find("dtype") : nullptr;
  return refused(fmt::format("quantization: found nothing: the weights are not quantised (dtype {})",
                             dtype ? dtype->shown() : "unknown"));
}

}  // namespace

Result<QuantTable> parse_quantization(const JsonValue& root) {
  const JsonValue* own = root.find("quantization");
  const JsonValue* general = root.find("quantization_config");
  if (!own && !general) return not_quantised(root);
  if (!own) return read_table(*general, "quantization_config");
  LILY_TRY(auto table, read_table(*own, "quantization"));
  if (!general) return table;
  LILY_TRY(const auto other, read_table(*general, "quantization_config"));
  if (other.default_bits != table.default_bits || other.overrides != table.overrides) {
    return Error{ErrorCode::kCorrupt, "config.json: quantization and quantization_config contradict each other"};
  }
  return table;
}

}  // namespace lily
