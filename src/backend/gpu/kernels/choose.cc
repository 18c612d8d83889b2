// One token a row from the scores that choose_stats left, in the order of docs/SAMPLING.md, and
// what is reported of the row.
// Grid: a group of 256 threads per row of the block. The scores are taken in descending order as
// far as the cuts and the draw need them; the first kChooseKept are kept, since up to three walks
// begin at the first. All threads compute the same sums, entry after entry, with the rounding error
// carried along.
// Traffic: the chunks' largest, then one chunk per entry that is taken, mostly from cache.
#include "backend/gpu/kernels/vocabulary_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/pass.h"
#include "backend/gpu/kernels/vocabulary.h"

KERNEL_CONST uint kChooseKept = 256, kChooseMaxTop = 20;

struct ChooseShared {
  float parts[4][32];
  float kept_x[256];
  uint kept_token[256];
  float top_log_probs[20];
  uint top_ids[20];
};

// ---- Philox 4x32-10, as in base/random.h.
struct ChooseCounter {
  uint x, y, z, w;
};
FN float choose_uniform(DEV const GpuSampling* s) {
  ChooseCounter c = {s->draw_low, s->draw_high, 0, 0};
  uint key0 = s->seed_low, key1 = s->seed_high;
  for (uint round = 0; round < 10; round++) {
    const ulong p = (ulong)0xD2511F53u * c.x, q = (ulong)0xCD9E8D57u * c.z;
    const uint y = c.y, w = c.w;
    c.x = (uint)(q >> 32) ^ y ^ key0;
    c.y = (uint)q;
    c.z = (uint)(p >> 32) ^ w ^ key1;
    c.w = (uint)p;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return (float)(c.x >> 8) * 0x1p-24f;
}

// ---- sums of weights, largest first: the sum and what its roundings lost.
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

// ---- the scores in order, from the first again as often as needed
struct ChooseWalk {
  VocabularyRow row;
  VocabularyRest rest;
  uint taken;
};

// Entry n; n is 0, the one asked for before, or the next.
FN void walk_entry(THR ChooseWalk& walk, uint n, TG ChooseShared& sm, THR VocabularyEntry& entry,
                   const THR Ids& id) {
  if (n < walk.taken && n < kChooseKept) {
    entry.x = sm.kept_x[n];
    entry.token = sm.kept_token[n];
  } else {
    if (n < walk.taken) {  // Behind what was kept, for another time.
      const VocabularyEntry last = {sm.kept_x[kChooseKept - 1], sm.kept_token[kChooseKept - 1]};
      vocabulary_behind(walk.row, last, walk.rest, id);
    }
    walk.taken = n + 1;
    vocabulary_take(walk.rest, walk.row, sm.parts, entry, id);
    if (n < kChooseKept && id.tid == 0) {
      sm.kept_x[n] = entry.x;
      sm.kept_token[n] = entry.token;
    }
    group_barrier();
  }
}

// The first entries up to `most`, as far as their weight is at least min_p and as long as those
// before them weigh less than `wanted`; at least one. A weight of 0 ends the list: it cannot be
// drawn.
struct ChooseFront {
  uint n;
  float mass;
};
struct ChooseCut {
  uint most;
  float wanted, min_p;
};
FN void choose_front(THR ChooseWalk& walk, float largest, float rate, const THR ChooseCut& cut,
                     THR ChooseFront& front, TG ChooseShared& sm, const THR Ids& id) {
  front.n = 0;
  ChooseMass mass = {0.0f, 0.0f};
  bool more = true;
  while (more) {
    VocabularyEntry entry;
    walk_entry(walk, front.n, sm, entry, id);
    const float weight = vocabulary_weight(entry.x, largest, rate);
    more = weight > 0.0f && (front.n == 0 || weight >= cut.min_p);
    if (more) {
      mass_add(mass, weight);
      front.n++;
      more = front.n < cut.most && mass_past(mass, cut.wanted) < 0.0f;
    }
  }
  front.mass = mass_value(mass);
}

FN int choose_draw(DEV const GpuSampling* s, THR ChooseWalk& walk,
                   const THR VocabularyTotal& scores, TG ChooseShared& sm, const THR Ids& id) {
  const float infinite = as_type<float>(0x7f800000u);
  const float rate = vocabulary_rate(s->temperature);
  const bool top_k = s->top_k > 0 && (uint)s->top_k < walk.row.n;
  ChooseFront kept = {walk.row.n, scores.sum};
  if (top_k) {
    const ChooseCut cut = {(uint)s->top_k, infinite, 0.0f};
    choose_front(walk, scores.largest, rate, cut, kept, sm, id);
  }
  if (s->top_p < 1.0f || s->min_p > 0.0f) {
    const ChooseCut cut = {kept.n, s->top_p < 1.0f ? s->top_p * kept.mass : infinite, s->min_p};
    choose_front(walk, scores.largest, rate, cut, kept, sm, id);
  }
  const float point = choose_uniform(s) * kept.mass;
  int token = -1;
  ChooseMass mass = {0.0f, 0.0f};
  bool more = true;
  for (uint n = 0; more; n++) {
    VocabularyEntry entry;
    walk_entry(walk, n, sm, entry, id);
    const float weight = vocabulary_weight(entry.x, scores.largest, rate);
    more = weight > 0.0f;
    if (more) {
      mass_add(mass, weight);
      token = (int)entry.token;
      more = n + 1 < kept.n && !(mass_past(mass, point) > 0.0f);
    }
  }
  return token;
}

// The n_top largest logits, in sm.top_ids and sm.top_log_probs; returns how many there are.
FN uint choose_top(CON ChooseParams& a, uint n_top, uint row_index, const THR VocabularyTotal& all,
                   TG ChooseShared& sm, const THR Ids& id) {
  const VocabularyRow row = {a.logits + (ulong)row_index * a.vocab_rows, a.vocab_used, a.chunk};
  VocabularyRest rest;
  vocabulary_all(a.chunks + row_index * kVocabularyChunks, row, rest, id);
  const uint n = u_min(u_min(n_top, kChooseMaxTop), a.vocab_used);
  for (uint i = 0; i < n; i++) {
    VocabularyEntry entry;
    vocabulary_take(rest, row, sm.parts, entry, id);
    if (id.tid == 0) {
      sm.top_ids[i] = entry.token;
      sm.top_log_probs[i] = (entry.x - all.largest) - m_log(all.sum);
    }
  }
  group_barrier();
  return n;
}

KERNEL(choose_rows, ChooseParams, ChooseShared, 256) {
  const uint row = id.group.x;
  if (a.first + row < pass_head_rows(a.control)) {
    DEV GpuSampling* s = a.samplings[a.first + row];
    DEV const float* logits = a.logits + (ulong)row * a.vocab_rows;
    const bool as_is = choose_as_is(s);
    DEV const float* scored = as_is ? logits : a.scores + (ulong)row * a.vocab_used;
    DEV const VocabularyChunk* chunks =
        (as_is ? a.chunks : a.score_chunks) + row * kVocabularyChunks;
    ChooseWalk walk = {{scored, a.vocab_used, a.chunk}, {0.0f, 0}, 0};
    vocabulary_all(chunks, walk.row, walk.rest, id);
    const float rate = s->temperature > 0.0f ? vocabulary_rate(s->temperature) : 1.0f;
    VocabularyTotal all, scores;
    vocabulary_total(a.chunks + row * kVocabularyChunks, walk.row, 1.0f, sm.parts, all, id);
    vocabulary_total(chunks, walk.row, rate, sm.parts, scores, id);
    int token = -1;
    uint n_top = 0;
    if (all.finite) {
      if (s->temperature > 0.0f) {
        token = choose_draw(s, walk, scores, sm, id);
      } else {
        VocabularyEntry best;
        vocabulary_largest(walk.rest, sm.parts, best, id);
        token = best.x > vocabulary_none() ? (int)best.token : -1;
      }
      group_barrier();
      n_top = choose_top(a, (uint)s->n_top, row, all, sm, id);
    }
    DEV GpuChosen* to = a.chosen + a.first + row;
    if (id.tid < kChooseMaxTop) {
      const bool has = id.tid < n_top;
      to->top_ids[id.tid] = has ? (int)sm.top_ids[id.tid] : 0;
      to->top_log_probs[id.tid] = has ? sm.top_log_probs[id.tid] : 0.0f;
    }
    if (id.tid == 0) {
      to->token = token;
      to->not_finite = all.finite ? 0 : 1;
      to->log_prob = token >= 0 ? (logits[token] - all.largest) - m_log(all.sum) : 0.0f;
      to->n_top = (int)n_top;
      if (token >= 0) s->generated[token] += 1;
      // A row without a token gives the next pass token 0: that pass may be under way before the
      // host has seen the -1.
      if (a.next_tokens != nullptr) a.next_tokens[a.first + row] = i_max(token, 0);
    }
  }
}
