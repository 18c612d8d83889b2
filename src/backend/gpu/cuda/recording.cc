// Graphs, node by node.
#include "backend/gpu/cuda/recording.h"

#include <utility>
#include <vector>

#include "backend/gpu/cuda/lowering.h"

namespace lily::gpu::cuda {
namespace {

// The arguments are copied by the driver when the node is made.
CUDA_KERNEL_NODE_PARAMS node_params(const Node& node, CUfunction function, void** arguments) {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = function;
  params.gridDimX = node.grid.x;
  params.gridDimY = node.grid.y;
  params.gridDimZ = node.grid.z;
  params.blockDimX = node.threads;
  params.blockDimY = params.blockDimZ = 1;
  params.sharedMemBytes = node.shared_bytes;
  params.kernelParams = arguments;
  return params;
}

// From each node of a stage to one of the next. A node that waits for itself may start early where
// a single one is before it.
Result<void> add_edges(const Driver& cu, CUgraph graph, const std::vector<CUgraphNode>& from,
                       CUgraphNode to, bool early) {
  CUgraphEdgeData edge{};
  if (early && from.size() == 1) {
    edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  for (const CUgraphNode& node : from) {
    LILY_RETURN_IF_ERROR(cu.check(cu.cuGraphAddDependencies(graph, &node, &to, &edge, 1),
                                  "ordering the kernels of a pass"));
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<CudaRecording>> CudaRecording::build(std::span<const Node> nodes,
                                                            const Modules& modules,
                                                            std::shared_ptr<Context> context) {
  const std::shared_ptr<CudaRecording> recording(new CudaRecording(std::move(context)));
  LILY_RETURN_IF_ERROR(recording->add_nodes(nodes, modules));
  const Driver& cu = recording->context_->use();
  LILY_RETURN_IF_ERROR(
      cu.check(cu.cuGraphInstantiateWithFlags(&recording->executable_, recording->graph_, 0),
               "making a graph of a pass"));
  return recording;
}

Result<void> CudaRecording::add_nodes(std::span<const Node> nodes, const Modules& modules) {
  const Driver& cu = context_->use();
  LILY_RETURN_IF_ERROR(cu.check(cu.cuGraphCreate(&graph_, 0), "making a graph"));
  std::vector<CUgraphNode> before, stage;  // Nodes of the stage before, of this one.
  for (const Node& node : nodes) {
    if (node.barrier_before) {
      before = std::move(stage);
      stage.clear();
    }
    LILY_TRY(const CUfunction function, modules.find(node));
    void* arguments[] = {const_cast<std::byte*>(node.args.data())};
    const auto params = node_params(node, function, arguments);
    CUgraphNode added = nullptr;
    const CUresult result = cu.cuGraphAddKernelNode(&added, graph_, nullptr, 0, &params);
    if (result != CUDA_SUCCESS) {
      return cu.error(result,
                      std::string("recording kernel '").append(kernel_name(node)).append("'"));
    }
    LILY_RETURN_IF_ERROR(add_edges(cu, graph_, before, added, node.waits));
    stage.push_back(added);
  }
  return {};
}

CudaRecording::~CudaRecording() {
  const Driver& cu = context_->use();
  if (executable_ != nullptr) cu.cuGraphExecDestroy(executable_);
  if (graph_ != nullptr) cu.cuGraphDestroy(graph_);
}

}  // namespace lily::gpu::cuda
