// A row of logits or scores in descending order, equal ones by ascending id, taken one by one by a
// group of kVocabularyThreads threads. Included by kernels after dialect.h and vocabulary_params.h.
//
// Thread i holds the largest entry of chunk i that was not taken. To take one is to find the
// largest of these and then the next of its chunk: a few microseconds an entry.
#pragma once

FN bool is_finite(float x) {
  return (as_type<uint>(x) & 0x7f800000u) != 0x7f800000u;
}

// The score of what may not be chosen; less than every finite number.
FN float vocabulary_none() {
  return as_type<float>(0xff800000u);
}

// 1 / temperature, finite, so that the largest has the weight 1 at any temperature.
FN float vocabulary_rate(float temperature) {
  return m_min(1.0f / temperature, 3.0e38f);
}

// exp((x - largest) * rate).
FN float vocabulary_weight(float x, float largest, float rate) {
  return x > vocabulary_none() ? m_exp((x - largest) * rate) : 0.0f;
}

// The lowest of the ids of threads with `has`. Ids below 2^24 are exact floats.
FN uint vocabulary_lowest_id(bool has, uint token, TG float* parts, const THR Ids& id) {
  return (uint)-group_max(has ? -(float)token : -16777216.0f, parts, id);
}

// Does the row take its largest logit, whatever else? Then its scores are its logits.
FN bool choose_as_is(DEV const GpuSampling* s) {
  return !(s->temperature > 0.0f) && s->n_bias == 0 && s->allowed == nullptr &&
         s->repetition_penalty == 1.0f && s->presence_penalty == 0.0f &&
         s->frequency_penalty == 0.0f;
}

struct VocabularyRow {
  DEV const float* x;
  uint n, chunk;
};

// What is left of a row: of the thread's chunk the next entry.
struct VocabularyRest {
  float largest;
  uint at;
};

struct VocabularyEntry {
  float x;  // vocabulary_none() when nothing is left
  uint token;
};

FN bool vocabulary_after(float x, uint token, const THR VocabularyEntry& last) {
  return x < last.x || (x == last.x && token > last.token);
}

// The largest entry of x [begin, end) behind `last`, every stride-th one.
FN void vocabulary_next(const THR VocabularyRow& row, uint begin, uint end, uint stride,
                        const THR VocabularyEntry& last, THR VocabularyRest& next) {
  next.largest = vocabulary_none();
  next.at = 0;
  for (uint i = begin; i < end; i += stride) {
    const float v = row.x[i];
    if (v > next.largest && vocabulary_after(v, i, last)) {
      next.largest = v;
      next.at = i;
    }
  }
}

// All of the row, from what is known of its chunks.
FN void vocabulary_all(DEV const VocabularyChunk* chunks, const THR VocabularyRow& row,
                       THR VocabularyRest& rest, const THR Ids& id) {
  rest.largest = vocabulary_none();
  rest.at = 0;
  if (id.tid * row.chunk < row.n) {
    rest.largest = chunks[id.tid].largest;
    rest.at = chunks[id.tid].at;
  }
}

// The next entry, which stays. parts [4][32], between uses of which there is always a barrier.
FN void vocabulary_largest(const THR VocabularyRest& rest, TG float (*parts)[32],
                           THR VocabularyEntry& entry, const THR Ids& id) {
  entry.x = group_max(rest.largest, parts[0], id);
  entry.token = vocabulary_lowest_id(rest.largest == entry.x, rest.at, parts[1], id);
}

// Takes the next entry.
FN void vocabulary_take(THR VocabularyRest& rest, const THR VocabularyRow& row,
                        TG float (*parts)[32], THR VocabularyEntry& entry, const THR Ids& id) {
  vocabulary_largest(rest, parts, entry, id);
  if (entry.x > vocabulary_none()) {
    const uint owner = entry.token / row.chunk, begin = owner * row.chunk;
    const uint end = u_min(begin + row.chunk, row.n);
    VocabularyRest mine;
    vocabulary_next(row, begin + id.tid, end, kVocabularyThreads, entry, mine);
    const float largest = group_max(mine.largest, parts[2], id);
    const uint at = vocabulary_lowest_id(mine.largest == largest, mine.at, parts[3], id);
    if (id.tid == owner) {
      rest.largest = largest;
      rest.at = at;
    }
  }
}

// The sum of exp((x - largest) * rate) over a row, and its largest entry, from its chunks.
struct VocabularyTotal {
  float largest, sum;
  bool finite;
};
FN void vocabulary_total(DEV const VocabularyChunk* chunks, const THR VocabularyRow& row,
                         float rate, TG float (*parts)[32], THR VocabularyTotal& total,
                         const THR Ids& id) {
  const bool has = id.tid * row.chunk < row.n;
  const float mine = has ? chunks[id.tid].largest : vocabulary_none();
  const float broken = has && chunks[id.tid].not_finite != 0 ? 1.0f : 0.0f;
  total.largest = group_max(mine, parts[0], id);
  const float sum = mine > vocabulary_none() ? chunks[id.tid].sum : 0.0f;
  total.sum = group_sum(sum * vocabulary_weight(mine, total.largest, rate), parts[1], id);
  total.finite = group_max(broken, parts[2], id) == 0.0f;
  group_barrier();
}
