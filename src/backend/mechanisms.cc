// Switches of a GPU's pass by name.
#include "backend/mechanisms.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace lily {
namespace {

std::string known_names() {
  std::string names;
  for (const auto& known : kMechanismFields) names.append(names.empty() ? "" : ", ").append(known.name);
  return names;
}

}  // namespace

Mechanisms default_mechanisms(std::string_view backend) {
  Mechanisms mechanisms;
  // On an H200 blocks cost 6 % of decode at 32,768, nothing at 65,536, 3.5 % at 131,072.
  if (backend == "cuda") mechanisms.block_attention = false;
  return mechanisms;
}

Result<void> set_mechanism(Mechanisms& mechanisms, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string_view name = assignment.substr(0, equals);
  const std::string_view value = equals == assignment.npos ? "" : assignment.substr(equals + 1);
  const auto known = std::find_if(std::begin(kMechanismFields), std::end(kMechanismFields),
                                  [&](const MechanismField& f) { return f.name == name; });
  if (known == std::end(kMechanismFields)) {
    return Error{ErrorCode::kInvalidArgument,
                 "mechanism '" + std::string(name) + "': expected one of " + known_names()};
  }
  if (value != "on" && value != "off") {
    return Error{ErrorCode::kInvalidArgument, "mechanism '" + std::string(assignment) +
                                                  "': expected NAME=on or NAME=off"};
  }
  mechanisms.*known->field = value == "on";
  return {};
}

}  // namespace lily
