// Arguments of experts_int8.cu: the routing that both launches work out for themselves, and the
// experts.
#pragma once

#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/kernels/route_choose_params.h"

struct ExpertsUpInt8Params {
  RouteChooseParams route;
  ExpertsUpParams up;
};
struct ExpertsDownInt8Params {
  RouteChooseParams route;
  ExpertsDownParams down;
};
