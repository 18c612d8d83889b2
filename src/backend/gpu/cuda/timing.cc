// Graphs between two events.
#include "backend/gpu/cuda/timing.h"

#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/gpu/cuda/recording.h"
#include "backend/gpu/median.h"

namespace lily::gpu::cuda {
namespace {

constexpr std::size_t kLeastNodes = 32;  // Between two events, whose own cost is some microseconds.
constexpr int kWholePasses = 4;

class Event {
 public:
  explicit Event(const Driver& cu) : cu_(cu) {}
  ~Event() {
    if (event_ != nullptr) cu_.cuEventDestroy(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Result<void> record(CUstream stream) {
    if (event_ == nullptr) {
      LILY_RETURN_IF_ERROR(cu_.check(cu_.cuEventCreate(&event_, CU_EVENT_DEFAULT), kDoing));
    }
    return cu_.check(cu_.cuEventRecord(event_, stream), kDoing);
  }
  // Waits for both.
  Result<double> seconds_since(const Event& start) const {
    LILY_RETURN_IF_ERROR(cu_.check(cu_.cuEventSynchronize(event_), kDoing));
    float milliseconds = 0;
    LILY_RETURN_IF_ERROR(
        cu_.check(cu_.cuEventElapsedTime(&milliseconds, start.event_, event_), kDoing));
    return milliseconds / 1e3;
  }

 private:
  static constexpr const char* kDoing = "timing kernels";
  const Driver& cu_;
  CUevent event_ = nullptr;
};

// Nodes of one kind: the same kernel for the same step in a grid of the same size.
using Kind = std::tuple<std::string_view, std::string_view, unsigned, unsigned, unsigned>;

Kind kind_of(const Program& program, const Node& node) {
  // One that prepares belongs to the launch behind it.
  const std::string_view step = program.launches()[node.first].step;
  return {kernel_name(node), step, node.grid.x, node.grid.y, node.grid.z};
}

class Timing {
 public:
  Timing(const Modules& modules, std::shared_ptr<Context> context, CUstream stream, int repeats)
      : modules_(modules),
        context_(std::move(context)),
        cu_(context_->use()),
        stream_(stream),
        repeats_(repeats) {}

  Result<void> open(std::span<const Node> nodes) {
    LILY_TRY(whole_, CudaRecording::build(nodes, modules_, context_));
    return {};
  }
  Result<double> whole() { return several(*whole_, kWholePasses); }
  // Of each of the nodes, which are all of one kind, seconds.
  Result<double> of(std::vector<Node> nodes) {
    const std::size_t n = nodes.size();
    while (nodes.size() < kLeastNodes) nodes.push_back(nodes[nodes.size() % n]);
    for (Node& node : nodes) {
      node.barrier_before = true;
      node.waits = false;
    }
    LILY_TRY(const auto graph, CudaRecording::build(nodes, modules_, context_));
    LILY_TRY(const double seconds, several(*graph, 1));
    return seconds / static_cast<double>(nodes.size());
  }

 private:
  Result<void> launch(const CudaRecording& recording) {
    return cu_.check(cu_.cuGraphLaunch(recording.graph(), stream_), "timing kernels");
  }
  // Behind a whole pass, which leaves in memory what passes leave, and a first run: the card works
  // while the host hands over what is measured.
  Result<double> once(const CudaRecording& recording, int n) {
    Event start(cu_), end(cu_);
    LILY_RETURN_IF_ERROR(launch(*whole_));
    LILY_RETURN_IF_ERROR(launch(recording));
    LILY_RETURN_IF_ERROR(start.record(stream_));
    for (int i = 0; i < n; ++i) LILY_RETURN_IF_ERROR(launch(recording));
    LILY_RETURN_IF_ERROR(end.record(stream_));
    LILY_TRY(const double seconds, end.seconds_since(start));
    return seconds / n;
  }
  Result<double> several(const CudaRecording& recording, int n) {
    std::vector<double> runs;
    for (int i = 0; i < repeats_; ++i) {
      LILY_TRY(const double seconds, once(recording, n));
      runs.push_back(seconds);
    }
    return gpu::median(std::move(runs));
  }

  const Modules& modules_;
  std::shared_ptr<Context> context_;
  const Driver& cu_;
  CUstream stream_;
  int repeats_;
  std::shared_ptr<CudaRecording> whole_;
};

}  // namespace

Result<ProgramTime> time_program(const Program& program, int repeats, const Modules& modules,
                                 const std::shared_ptr<Context>& context, CUstream stream) {
  LILY_CHECK(repeats > 0 && !program.launches().empty());
  const std::vector<Node> nodes = lower(program, modules.card());
  Timing timing(modules, context, stream, repeats);
  LILY_RETURN_IF_ERROR(timing.open(nodes));
  ProgramTime out;
  LILY_TRY(out.seconds, timing.whole());
  std::map<Kind, std::vector<Node>> kinds;
  for (const Node& node : nodes) kinds[kind_of(program, node)].push_back(node);
  std::map<Kind, double> seconds;
  for (auto& [kind, of_kind] : kinds) {
    LILY_TRY(seconds[kind], timing.of(std::move(of_kind)));
  }
  for (const Node& node : nodes) {
    LaunchTime launch{.kernel = std::string(kernel_name(node)),
                      .takes = {},
                      .seconds = seconds[kind_of(program, node)]};
    for (std::size_t i = 0; i < node.n_launches; ++i) launch.takes.push_back(node.first + i);
    out.launches.push_back(std::move(launch));
  }
  return out;
}

}  // namespace lily::gpu::cuda
