// Arguments of experts_mma.cu: the routing that both launches work out for themselves, and the
// experts.
#pragma once

#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/kernels/route_choose_params.h"

struct ExpertsUpMmaParams {
  RouteChooseParams route;
  ExpertsUpParams up;
};
struct ExpertsDownMmaParams {
  RouteChooseParams route;
  ExpertsDownParams down;
};
