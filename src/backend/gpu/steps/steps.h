// The steps of ops.h as launches: one function a step, in the file of its name. A pass of at most
// kFewRows rows (decode, drafts) is recorded with kernels that give a row the same bits whatever
// else is in the pass; a longer one with tiles.
//
// Weights are WeightLayout::kRowMajor, the KV cache is bf16.
#pragma once

#include "backend/args.h"
#include "backend/gpu/recorder.h"

namespace lily::gpu {

inline constexpr int kFewRows = 8;

// Scratch of all steps together, for passes of up to max_rows rows: the sum of what each says of
// itself.
std::size_t scratch_bytes(const ModelSpec& spec, int max_rows, const Mechanisms& mechanisms);

void record_embed(Recorder& to, const EmbedArgs& args);
void record_gdn_project(Recorder& to, const GdnProjectArgs& args);
void record_gdn_prepare(Recorder& to, const GdnPrepareArgs& args);
void record_gdn_scan(Recorder& to, const GdnScanArgs& args);
void record_project_residual(Recorder& to, const ProjectResidualArgs& args);
void record_attention_project(Recorder& to, const AttentionProjectArgs& args);
void record_attention_prepare(Recorder& to, const AttentionPrepareArgs& args);
// Passes of one row: attention_prepare is left to the kernels of the attention that follows.
bool attention_prepares(const Recorder& to);
// prepare: what was left to it, else null.
void record_attention(Recorder& to, const AttentionArgs& args, const AttentionPrepareArgs* prepare);
void record_route(Recorder& to, const RouteArgs& args);
void record_experts_up(Recorder& to, const ExpertsUpArgs& args);
void record_experts_down(Recorder& to, const ExpertsDownArgs& args);
void record_head(Recorder& to, const HeadArgs& args);
// Passes of few rows, where it is switched on: head is left to the choose that follows.
bool choose_takes_head(const Recorder& to);
void record_score(Recorder& to, const ScoreArgs& args);
// head: what was left to it, else null.
void record_choose(Recorder& to, const ChooseArgs& args, const HeadArgs* head);
void record_copy(Recorder& to, const CopyArgs& args);
void record_fold(Recorder& to, const FoldArgs& args);

std::size_t attention_prepare_scratch_bytes(const ModelSpec& spec, int max_rows);
std::size_t attention_scratch_bytes(const ModelSpec& spec, int max_rows);
std::size_t route_scratch_bytes(const ModelSpec& spec, int max_rows);
std::size_t dequantise_scratch_bytes(const ModelSpec& spec, const Mechanisms& mechanisms);
std::size_t experts_sort_scratch_bytes(const ModelSpec& spec, int max_rows);
std::size_t experts_down_scratch_bytes(const ModelSpec& spec, int max_rows);
std::size_t experts_apart_scratch_bytes(const ModelSpec& spec, int max_rows);
std::size_t vocabulary_scratch_bytes(const ModelSpec& spec, int max_rows);

}  // namespace lily::gpu
