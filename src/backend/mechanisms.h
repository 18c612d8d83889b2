// What makes a GPU's pass fast, mechanism by mechanism. Each can be switched, and the answer stays
// right: so what one is worth can be measured on the machine at hand.
#pragma once

#include <string_view>

#include "base/result.h"

namespace lily {

struct Mechanisms {
  // Prefill.
  bool dequantise_in_tile = true;  // Off: weights are written out as bf16 before the product.
  bool route_on_device = true;     // Off: the host reads the routing and submits the rest.
  bool adaptive_tiles = true;      // Off: tiles of 16 rows, however many rows an expert has.
  bool large_tiles = false;        // On: tiles of twice the height and width.
  bool matrix_units = true;        // Off: tiles multiplied by plain lanes.
  bool register_state = true;      // Off: the delta rule's state lies in device memory.
  // Decode.
  bool token_on_device = true;       // Off: the host hands each token to the next step.
  bool two_in_flight = true;         // Off: a step is submitted when the one before is done.
  bool concurrent_dispatch = true;   // Off: a barrier after every kernel.
  bool fused_experts_up = true;      // Off: gate, up and activation are kernels of their own.
  bool fused_experts_down = true;    // Off: so are down, the weighted sum and the shared expert.
  bool fused_query_key = true;       // Off: so are norms, rotation and the write to the cache.
  bool fused_scan_norm = true;       // Off: so are the recurrence and the norm behind it.
  bool packed_attention = true;      // Off: every query head reads the cache for itself.
  bool block_attention = true;       // Off: long contexts take the path of short ones.
  bool coalesced_kv = true;          // Off: neighbouring lanes read bytes that are far apart.
  bool fused_head_choose = true;     // Off: choosing sweeps over the logits.
  // Both.
  bool own_kernels = true;           // Off: the kernels that every GPU shares, also where a card has its own.
  bool operator==(const Mechanisms&) const = default;
};

struct MechanismField {
  std::string_view name;  // The field's.
  bool Mechanisms::*field;
};
inline constexpr MechanismField kMechanismFields[] = {
    {"dequantise_in_tile", &Mechanisms::dequantise_in_tile},
    {"route_on_device", &Mechanisms::route_on_device},
    {"adaptive_tiles", &Mechanisms::adaptive_tiles},
    {"large_tiles", &Mechanisms::large_tiles},
    {"matrix_units", &Mechanisms::matrix_units},
    {"register_state", &Mechanisms::register_state},
    {"token_on_device", &Mechanisms::token_on_device},
    {"two_in_flight", &Mechanisms::two_in_flight},
    {"concurrent_dispatch", &Mechanisms::concurrent_dispatch},
    {"fused_experts_up", &Mechanisms::fused_experts_up},
    {"fused_experts_down", &Mechanisms::fused_experts_down},
    {"fused_query_key", &Mechanisms::fused_query_key},
    {"fused_scan_norm", &Mechanisms::fused_scan_norm},
    {"packed_attention", &Mechanisms::packed_attention},
    {"block_attention", &Mechanisms::block_attention},
    {"coalesced_kv", &Mechanisms::coalesced_kv},
    {"fused_head_choose", &Mechanisms::fused_head_choose},
    {"own_kernels", &Mechanisms::own_kernels},
};

// What is fastest on a backend of this name, as far as that was measured (docs/RESULTS.md).
Mechanisms default_mechanisms(std::string_view backend);

// "NAME=on" or "NAME=off"; kInvalidArgument names what there is.
Result<void> set_mechanism(Mechanisms& mechanisms, std::string_view assignment);

}  // namespace lily
