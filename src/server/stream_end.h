// What a stream says when it cannot go on.
#pragma once

#include "server/api_error.h"
#include "server/service.h"

namespace lily::server {

// A stopped answer is told apart: the server is going, or somebody stopped it.
inline ApiError stream_error(const Service& service, const Error& error) {
  if (error.code == ErrorCode::kCancelled && service.stopping) {
    return {503, "server_stopping", "", "the server is stopping; the answer was cut off"};
  }
  return api_error(error);
}

}  // namespace lily::server
