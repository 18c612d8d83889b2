// attention: the queries of one KV head in a tile of rows form a group, which goes over its spans
// of positions in order.
//
// With enough groups for the threads a task is a group. With few (decode) a task is one span of one
// group: partial results are kept and merged afterwards in the same order, so both ways give the
// same bits. Spans are taken in waves that fit the scratch.
#include <algorithm>

#include "backend/cpu/attention_scratch.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kv_pages.h"
#include "backend/cpu/row_tiles.h"

namespace lily::cpu {
namespace {

constexpr std::int64_t kRunsPerThread = 4, kMostRunSpans = 8;

struct Group {
  RowTile tile;
  std::int64_t kv_head;
};

class Attention {
 public:
  Attention(const Kernels& kernels, const AttentionArgs& args)
      : kernels_(kernels.attention),
        args_(args),
        heads_(args.n_q_heads / args.kv.n_kv_heads),
        tiles_(*args.control, std::max(1, kTileQueries / heads_)) {}

  std::int64_t n_groups() const { return tiles_.count() * args_.kv.n_kv_heads; }
  Group group(std::int64_t index) const {
    return {tiles_.at(index / args_.kv.n_kv_heads), index % args_.kv.n_kv_heads};
  }
  std::int64_t n_queries(const Group& g) const { return g.tile.n_rows * heads_; }
  std::int64_t n_spans(const Group& g) const { return spans_until(g, g.tile.n_rows - 1); }
  std::int64_t most_spans() const {
    std::int64_t most = 0;
    for (int s = 0; s < args_.control->n_segments; ++s) {
      const Segment& segment = args_.control->segments[s];
      const std::int64_t end = std::int64_t{segment.position} + segment.n_rows;
      most = std::max(most, (end + kAttentionSpan - 1) / kAttentionSpan);
    }
    return most;
  }

  // Until `end` the caller goes on with the next span.
  void attend(const Group& g, std::int64_t span, std::int64_t end, const SpanScratch& scratch,
              const Partials& to) const;
  // Whether query `i` of the group sees positions of the span.
  bool sees(const Group& g, std::int64_t i, std::int64_t span) const {
    return span < spans_until(g, i / heads_);
  }
  void merge(const Partials& into, const Partials& next, std::int64_t i) const {
    kernels_.merge(into.at(i), next.at(i));
  }
  void finish(const Group& g, const Partials& all, std::int64_t i) const;
  // All spans of a group, one after the other.
  void run(const Group& g, const ThreadScratch& scratch) const;

 private:
  std::int64_t position(const Group& g, std::int64_t row) const {
    return g.tile.segment->position + g.tile.first + row;
  }
  std::int64_t spans_until(const Group& g, std::int64_t row) const {
    return position(g, row) / kAttentionSpan + 1;
  }
  std::int64_t head_index(const Group& g, std::int64_t row) const {
    return (g.tile.segment->first_row + g.tile.first + row) * args_.n_q_heads + g.kv_head * heads_;
  }

  const AttentionKernels& kernels_;
  const AttentionArgs& args_;
  int heads_;  // Queries that share a KV head.
  RowTiles tiles_;
};

void Attention::attend(const Group& g, std::int64_t span, std::int64_t end,
                       const SpanScratch& scratch, const Partials& to) const {
  SpanTask task = {.q = args_.q + head_index(g, 0) * kHeadDim,
                   .q_stride = std::int64_t{args_.n_q_heads} * kHeadDim,
                   .n_rows = static_cast<int>(g.tile.n_rows),
                   .group = heads_,
                   .first_position = position(g, 0) - span * kAttentionSpan,
                   .keys = {},
                   .values = {},
                   .next_keys = {},
                   .scores = scratch.scores,
                   .mix = to.mix,
                   .largest = to.largest,
                   .total = to.total};
  const std::int64_t last_page = position(g, g.tile.n_rows - 1) / kKvPageTokens;
  const auto part = [&](std::int64_t page, KvPart which) {
    return page <= last_page ? page_at(args_.kv, g.tile.segment->sequence, page, g.kv_head, which)
                             : nullptr;
  };
  for (std::int64_t p = 0; p < kPagesPerSpan; ++p) {
    const std::int64_t page = span * kPagesPerSpan + p;
    task.keys[p] = part(page, KvPart::kKeys);
    task.values[p] = part(page, KvPart::kValues);
    if (span + 1 < end) task.next_keys[p] = part(page + kPagesPerSpan, KvPart::kKeys);
  }
  kernels_.attend(task);
}

void Attention::finish(const Group& g, const Partials& all, std::int64_t i) const {
  const std::int64_t at = head_index(g, i / heads_) + i % heads_;
  const Partial partial = all.at(i);
  kernels_.finish(partial.mix, *partial.total, args_.q_gate + (at * 2 + 1) * kHeadDim,
                  args_.y + at * kHeadDim);
}

void Attention::run(const Group& g, const ThreadScratch& scratch) const {
  const std::int64_t end = n_spans(g);
  attend(g, 0, end, scratch.span, scratch.all);
  for (std::int64_t span = 1; span < end; ++span) {
    attend(g, span, end, scratch.span, scratch.next);
    for (std::int64_t i = 0; i < n_queries(g); ++i) {
      if (sees(g, i, span)) merge(scratch.all, scratch.next, i);
    }
  }
  for (std::int64_t i = 0; i < n_queries(g); ++i) finish(g, scratch.all, i);
}

}  // namespace

void CpuBackend::attention(const AttentionArgs& args) {
  const Attention attention(kernels_, args);
  const std::int64_t n_groups = attention.n_groups(), n_spans = attention.most_spans();
  const auto scratch_of = [&](int thread) {
    return thread_scratch_layout(thread_scratch(thread, kAttentionThreadBytes));
  };
  if (n_groups >= kGroupsPerThread * pool_.size() || n_spans <= 1) {
    return pool_.parallel_for(n_groups, [&](std::int64_t task, int thread) {
      attention.run(attention.group(task), scratch_of(thread));
    });
  }
  // Slot 0 of a group holds all spans merged so far, the others those of the wave.
  const std::int64_t n_slots = scratch_.n_partials / n_groups;
  const auto slot = [&](std::int64_t group, std::int64_t index) {
    return partials_at(scratch_.partials.as<float>(), group * n_slots + index);
  };
  for (std::int64_t first = 0; first < n_spans;) {
    const std::int64_t skip = first == 0 ? 0 : 1, n = std::min(n_spans - first, n_slots - skip);
    // Runs of spans, so that a thread can ask for what it needs next.
    const std::int64_t run =
        std::clamp(n_groups * n / (kRunsPerThread * pool_.size()), std::int64_t{1}, kMostRunSpans);
    const std::int64_t n_runs = (n + run - 1) / run;
    pool_.parallel_for(n_groups * n_runs, [&](std::int64_t task, int thread) {
      const std::int64_t index = task / n_runs, begin = task % n_runs * run;
      const Group group = attention.group(index);
      const std::int64_t end = std::min(begin + run, n);
      for (std::int64_t s = begin; s < end && first + s < attention.n_spans(group); ++s) {
        attention.attend(group, first + s, first + end, scratch_of(thread).span,
                         slot(index, skip + s));
      }
    });
    pool_.parallel_for(n_groups * kTileQueries, [&](std::int64_t task) {
      const std::int64_t index = task / kTileQueries, i = task % kTileQueries;
      const Group group = attention.group(index);
      if (i >= attention.n_queries(group)) return;
      for (std::int64_t s = 1 - skip; s < n; ++s) {
        if (attention.sees(group, i, first + s))
          attention.merge(slot(index, 0), slot(index, skip + s), i);
      }
      if (first + n == n_spans) attention.finish(group, slot(index, 0), i);
    });
    first += n;
  }
}

}  // namespace lily::cpu
