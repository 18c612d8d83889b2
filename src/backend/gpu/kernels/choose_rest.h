// Cuts and draws that reach past the entries taken one by one: the border is found by halving the
// range of scores, a sweep over the row each time, so that a flat distribution costs 34 sweeps and
// no more. Included by kernels after vocabulary_params.h and dialect.h.
#pragma once

#include "backend/gpu/kernels/vocabulary.h"

// Sums of weights: the sum and what its roundings lost.
struct ChooseMass {
  float sum, lost;
};
FN void mass_add(THR ChooseMass& m, float weight) {
  const float sum = m.sum + weight;
  m.lost += (m.sum - sum) + weight;
  m.sum = sum;
}
FN float mass_value(const THR ChooseMass& m) {
  return m.sum + m.lost;
}
// The mass less a bound, without rounding the mass first.
FN float mass_past(const THR ChooseMass& m, float bound) {
  return (m.sum - bound) + m.lost;
}

// Entries are taken largest first until there are `most`, or until they weigh at least `wanted`;
// `past`: more than that. Those with less weight than min_p are not taken, nor those without any.
struct ChooseCut {
  uint most;
  float wanted, min_p;
  bool past;
};
struct ChooseSet {
  uint n;
  float mass;
};
FN bool choose_enough(const THR ChooseCut& cut, uint n, float past) {
  return n >= cut.most || (cut.past ? past > 0.0f : past >= 0.0f);
}

// Numbers in the order of the scores; +0 and -0 are one.
FN uint choose_key(float score) {
  const uint bits = as_type<uint>(score + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
FN float choose_score(uint key) {
  return as_type<float>((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// How a row's scores weigh.
struct ChooseScale {
  float largest, rate;
};
FN float choose_weight(const THR ChooseScale& scale, uint key) {
  return vocabulary_weight(choose_score(key), scale.largest, scale.rate);
}

// All entries from a key on. parts [4][32]; ends with a barrier.
FN void choose_sweep(const THR VocabularyRow& row, const THR ChooseScale& scale, uint key,
                     TG float (*parts)[32], THR ChooseSet& set, const THR Ids& id) {
  ChooseMass mass = {0.0f, 0.0f};
  uint n = 0;
  for (uint i = id.tid; i < row.n; i += id.threads) {
    const float x = row.x[i];
    if (choose_key(x) >= key) {
      mass_add(mass, vocabulary_weight(x, scale.largest, scale.rate));
      n++;
    }
  }
  const float lost = group_sum(mass.lost, parts[0], id);
  set.mass = group_sum(mass.sum, parts[1], id) + lost;
  set.n = (uint)group_sum((float)n, parts[2], id);  // Below 2^24: exact.
  group_barrier();
}

// The border of a cut: what lies above a key, at first nothing, and how many entries of that key
// are taken, of `equal`.
struct ChooseBorder {
  ChooseSet above;
  uint key, taken, equal;
};

// Least m of 1 .. equal with which there is enough; the last where rounding finds none.
FN void choose_equal(const THR ChooseCut& cut, float weight, THR ChooseBorder& border) {
  uint low = 0, high = border.equal;
  while (high - low > 1) {
    const uint middle = low + (high - low) / 2;
    const float past = m_fma((float)middle, weight, border.above.mass - cut.wanted);
    if (choose_enough(cut, border.above.n + middle, past)) {
      high = middle;
    } else {
      low = middle;
    }
  }
  border.taken = high;
}

FN void choose_border(const THR VocabularyRow& row, const THR ChooseScale& scale,
                      const THR ChooseCut& cut, TG float (*parts)[32], THR ChooseBorder& border,
                      const THR Ids& id) {
  // There is enough from `low` on, or it is too light; from `high` on there is not.
  uint low = choose_key(vocabulary_none()), high = choose_key(scale.largest) + 1;
  ChooseSet all = {0, 0.0f};
  bool light = true;
  while (high - low > 1) {
    const uint middle = low + (high - low) / 2;
    const float weight = choose_weight(scale, middle);
    const bool too_light = !(weight > 0.0f && weight >= cut.min_p);
    ChooseSet set = {0, 0.0f};
    if (!too_light) choose_sweep(row, scale, middle, parts, set, id);  // The same for all threads.
    if (too_light || choose_enough(cut, set.n, set.mass - cut.wanted)) {
      low = middle;
      light = too_light;
      all = set;
    } else {
      high = middle;
      border.above = set;
    }
  }
  border.key = low;
  border.equal = light ? 0 : all.n - border.above.n;
  border.taken = 0;
  if (!light) choose_equal(cut, choose_weight(scale, low), border);
}

// All that a cut takes.
FN void choose_taken(const THR ChooseScale& scale, const THR ChooseBorder& border,
                     THR ChooseSet& set) {
  set.n = border.above.n + border.taken;
  set.mass = border.above.mass;
  if (border.taken > 0)
    set.mass = m_fma((float)border.taken, choose_weight(scale, border.key), set.mass);
}

// The last of its entries: number `taken` of those with the border's key, by ascending id; or,
// where all above the border is taken, the last of the lightest. Each thread counts in a chunk of
// its own.
FN uint choose_last(const THR VocabularyRow& row, THR ChooseBorder& border, TG float (*parts)[32],
                    const THR Ids& id) {
  if (border.taken == 0) {
    float least = 3.4e38f;
    for (uint i = id.tid; i < row.n; i += id.threads) {
      if (choose_key(row.x[i]) > border.key) least = m_min(row.x[i], least);
    }
    border.key = choose_key(-group_max(-least, parts[3], id));
    border.taken = row.n;
  }
  const uint begin = u_min(id.tid * row.chunk, row.n), end = u_min(begin + row.chunk, row.n);
  uint n = 0;
  for (uint i = begin; i < end; i++) n += choose_key(row.x[i]) == border.key ? 1u : 0u;
  uint before = lanes_prefix(n, id.lane);
  const uint of_simd = lanes_sum(n);
  if (id.lane == 0) parts[0][id.simd] = (float)of_simd;
  group_barrier();
  uint all = 0;
  for (uint s = 0; s < id.threads / 32; s++) {
    before += s < id.simd ? (uint)parts[0][s] : 0u;
    all += (uint)parts[0][s];
  }
  const uint wanted = u_min(border.taken, all);
  uint last = 0;
  if (before < wanted && wanted <= before + n) {
    for (uint i = begin; before < wanted; i++) {
      if (choose_key(row.x[i]) == border.key) {
        last = i;
        before++;
      }
    }
  }
  return (uint)group_max((float)last, parts[1], id);
}
