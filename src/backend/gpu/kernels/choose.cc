// One token a row from the scores that choose_stats left, in the order of docs/SAMPLING.md, and
// what is reported of the row.
// Grid: a group of 256 threads per row of the block. The scores are taken in descending order as
// far as the cuts and the draw need them; the first kChooseKept are kept, since up to three walks
// begin at the first, and what lies behind them is found by choose_rest.h. All threads compute the
// same sums, entry after entry, with the rounding error carried along.
// Traffic: the chunks' largest, then one chunk per entry that is taken, mostly from cache. Of a
// flat distribution the scores up to 34 times a walk.
#include "backend/gpu/kernels/vocabulary_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/choose_rest.h"
#include "backend/gpu/kernels/pass.h"

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

// ---- the scores in order, the first kChooseKept of them
struct ChooseWalk {
  VocabularyRow row;
  VocabularyRest rest;
  uint taken;
};

// Entry n; n is below kChooseKept, and at most the number of those asked for before.
FN void walk_entry(THR ChooseWalk& walk, uint n, TG ChooseShared& sm, THR VocabularyEntry& entry,
                   const THR Ids& id) {
  if (n < walk.taken) {
    entry.x = sm.kept_x[n];
    entry.token = sm.kept_token[n];
  } else {
    walk.taken = n + 1;
    vocabulary_take(walk.rest, walk.row, sm.parts, entry, id);
    if (id.tid == 0) {
      sm.kept_x[n] = entry.x;
      sm.kept_token[n] = entry.token;
    }
    group_barrier();
  }
}

// What a cut takes, at least one entry, and the token of its last one.
struct ChooseFront {
  ChooseSet set;
  int last;
};
// `wants_last`: the token matters.
FN void choose_front(THR ChooseWalk& walk, const THR ChooseScale& scale, const THR ChooseCut& cut,
                     bool wants_last, THR ChooseFront& front, TG ChooseShared& sm,
                     const THR Ids& id) {
  ChooseMass mass = {0.0f, 0.0f};
  bool more = true;
  front.last = -1;
  uint n = 0;
  while (more && n < kChooseKept) {
    VocabularyEntry entry;
    walk_entry(walk, n, sm, entry, id);
    const float weight = vocabulary_weight(entry.x, scale.largest, scale.rate);
    more = weight > 0.0f && (n == 0 || weight >= cut.min_p);
    if (more) {
      mass_add(mass, weight);
      front.last = (int)entry.token;
      n++;
      more = !choose_enough(cut, n, mass_past(mass, cut.wanted));
    }
  }
  front.set.n = n;
  front.set.mass = mass_value(mass);
  if (more) {
    ChooseBorder border = {{0, 0.0f}, 0, 0, 0};
    choose_border(walk.row, scale, cut, sm.parts, border, id);
    choose_taken(scale, border, front.set);
    if (wants_last) front.last = (int)choose_last(walk.row, border, sm.parts, id);
    group_barrier();
  }
}

FN int choose_draw(DEV const GpuSampling* s, THR ChooseWalk& walk,
                   const THR VocabularyTotal& scores, TG ChooseShared& sm, const THR Ids& id) {
  const float infinite = as_type<float>(0x7f800000u);
  const ChooseScale scale = {scores.largest, vocabulary_rate(s->temperature)};
  const bool top_k = s->top_k > 0 && (uint)s->top_k < walk.row.n;
  ChooseFront kept = {{walk.row.n, scores.sum}, -1};
  if (top_k) {
    const ChooseCut cut = {(uint)s->top_k, infinite, 0.0f, false};
    choose_front(walk, scale, cut, false, kept, sm, id);
  }
  if (s->top_p < 1.0f || s->min_p > 0.0f) {
    const float wanted = s->top_p < 1.0f ? s->top_p * kept.set.mass : infinite;
    const ChooseCut cut = {kept.set.n, wanted, s->min_p, false};
    choose_front(walk, scale, cut, false, kept, sm, id);
  }
  const ChooseCut point = {kept.set.n, choose_uniform(s) * kept.set.mass, 0.0f, true};
  choose_front(walk, scale, point, true, kept, sm, id);
  return kept.last;
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
