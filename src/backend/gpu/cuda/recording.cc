// Graphs, node by node.
#include "backend/gpu/cuda/recording.h"

#include <utility>
#include <vector>

namespace lily::gpu::cuda {
namespace {

// The arguments are copied by the driver when the node is made.
CUDA_KERNEL_NODE_PARAMS node_params(const Launch& launch, CUfunction function, void** arguments) {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = function;
  params.gridDimX = launch.grid.x;
  params.gridDimY = launch.grid.y;
  params.gridDimZ = launch.grid.z;
  params.blockDimX = launch.threads;
  params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = arguments;
  return params;
}

}  // namespace

Result<std::shared_ptr<CudaRecording>> CudaRecording::build(const Program& program,
                                                            const Modules& modules,
                                                            std::shared_ptr<Context> context) {
  const std::shared_ptr<CudaRecording> recording(new CudaRecording(std::move(context)));
  LILY_RETURN_IF_ERROR(recording->add_nodes(program, modules));
  const Driver& cu = recording->context_->use();
  LILY_RETURN_IF_ERROR(
      cu.check(cu.cuGraphInstantiateWithFlags(&recording->executable_, recording->graph_, 0),
               "making a graph of a pass"));
  return recording;
}

Result<void> CudaRecording::add_nodes(const Program& program, const Modules& modules) {
  const Driver& cu = context_->use();
  LILY_RETURN_IF_ERROR(cu.check(cu.cuGraphCreate(&graph_, 0), "making a graph"));
  std::vector<CUgraphNode> before, stage;  // Nodes of the stage before, of this one.
  for (std::size_t i = 0; i < program.launches().size(); i++) {
    const Launch& launch = program.launches()[i];
    if (program.barrier_before(i)) {
      before = std::move(stage);
      stage.clear();
    }
    LILY_TRY(const CUfunction function, modules.find(*launch.kernel, launch.threads));
    void* arguments[] = {const_cast<std::byte*>(launch.args.data())};
    const auto params = node_params(launch, function, arguments);
    CUgraphNode node = nullptr;
    const CUresult result =
        cu.cuGraphAddKernelNode(&node, graph_, before.data(), before.size(), &params);
    if (result != CUDA_SUCCESS) {
      return cu.error(result,
                      std::string("recording kernel '").append(launch.kernel->name).append("'"));
    }
    stage.push_back(node);
  }
  return {};
}

CudaRecording::~CudaRecording() {
  const Driver& cu = context_->use();
  if (executable_ != nullptr) cu.cuGraphExecDestroy(executable_);
  if (graph_ != nullptr) cu.cuGraphDestroy(graph_);
}

}  // namespace lily::gpu::cuda
