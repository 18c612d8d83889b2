// A clock around each step.
#include "measure/step_timer.h"

#include "base/stopwatch.h"

namespace lily {

template <typename Args>
void StepTimer::timed(const char* name, void (Backend::*step)(const Args&), const Args& args) {
  const Stopwatch watch;
  (inner_.*step)(args);
  pieces_.push_back({.kernel = name, .work = {{name, ""}}, .seconds = watch.seconds()});
}

void StepTimer::embed(const EmbedArgs& args) {
  timed("embed", &Backend::embed, args);
}
void StepTimer::gdn_project(const GdnProjectArgs& args) {
  timed("gdn_project", &Backend::gdn_project, args);
}
void StepTimer::gdn_prepare(const GdnPrepareArgs& args) {
  timed("gdn_prepare", &Backend::gdn_prepare, args);
}
void StepTimer::gdn_scan(const GdnScanArgs& args) {
  timed("gdn_scan", &Backend::gdn_scan, args);
}
void StepTimer::project_residual(const ProjectResidualArgs& args) {
  timed("project_residual", &Backend::project_residual, args);
}
void StepTimer::attention_project(const AttentionProjectArgs& args) {
  timed("attention_project", &Backend::attention_project, args);
}
void StepTimer::attention_prepare(const AttentionPrepareArgs& args) {
  timed("attention_prepare", &Backend::attention_prepare, args);
}
void StepTimer::attention(const AttentionArgs& args) {
  timed("attention", &Backend::attention, args);
}
void StepTimer::route(const RouteArgs& args) {
  timed("route", &Backend::route, args);
}
void StepTimer::experts_up(const ExpertsUpArgs& args) {
  timed("experts_up", &Backend::experts_up, args);
}
void StepTimer::experts_down(const ExpertsDownArgs& args) {
  timed("experts_down", &Backend::experts_down, args);
}
void StepTimer::head(const HeadArgs& args) {
  timed("head", &Backend::head, args);
}
void StepTimer::score(const ScoreArgs& args) {
  timed("score", &Backend::score, args);
}
void StepTimer::choose(const ChooseArgs& args) {
  timed("choose", &Backend::choose, args);
}
void StepTimer::copy(const CopyArgs& args) {
  timed("copy", &Backend::copy, args);
}
void StepTimer::fold(const FoldArgs& args) {
  timed("fold", &Backend::fold, args);
}

}  // namespace lily
