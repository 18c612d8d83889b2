// Some rows of a mixer's case as a pass of their own: how tests split a pass into chunks and set
// its segments apart, on every backend.
#pragma once

#include <string>
#include <vector>

#include "tests/backend/cases.h"
#include "tests/backend/reference.h"

namespace lily::cases {

// Rows of a case as a segment of their own.
template <typename Case>
Case part_of(const Case& c, const std::vector<std::vector<float> Case::*>& members, int first,
             const Piece& piece) {
  Case part = c;
  Random random(1);
  for (const auto member : members)
    part.*member = rows_of(c.*member, c.control.n_rows, first, piece.n_rows);
  part.control = make_pass(c.spec, {piece}, {}, random);
  return part;
}

inline const std::vector<std::vector<float> GdnPrepareCase::*> kPrepareRows = {
    &GdnPrepareCase::qkv, &GdnPrepareCase::b, &GdnPrepareCase::a};
inline const std::vector<std::vector<float> GdnScanCase::*> kScanRows = {
    &GdnScanCase::q,     &GdnScanCase::k,    &GdnScanCase::v,
    &GdnScanCase::decay, &GdnScanCase::beta, &GdnScanCase::z};

inline bool is_pool(const std::string& name) {
  return name == "delta" || name == "conv";
}

inline const std::vector<float>& pool_of(const Outputs& outputs) {
  return outputs.count("delta") != 0 ? outputs.at("delta") : outputs.at("conv");
}
inline void set_pool(GdnPrepareCase& c, const Outputs& outputs) {
  c.states.conv = outputs.at("conv");
}
inline void set_pool(GdnScanCase& c, const Outputs& outputs) {
  c.states.delta = outputs.at("delta");
}

inline AttentionCase part_of(const AttentionCase& c, int first, const Piece& piece) {
  AttentionCase part = c;
  Random random(1);
  part.q = rows_of(c.q, c.control.n_rows, first, piece.n_rows);
  part.q_gate = rows_of(c.q_gate, c.control.n_rows, first, piece.n_rows);
  part.control = make_pass(c.spec, {piece}, {}, random);
  return part;
}

inline AttentionPrepareCase part_of(const AttentionPrepareCase& c, int first, const Piece& piece) {
  AttentionPrepareCase part = c;
  Random random(1);
  for (auto member :
       {&AttentionPrepareCase::q_gate, &AttentionPrepareCase::k, &AttentionPrepareCase::v}) {
    part.*member = rows_of(c.*member, c.control.n_rows, first, piece.n_rows);
  }
  part.control = make_pass(c.spec, {piece}, {}, random);
  return part;
}

}  // namespace lily::cases
