// Server-sent events out of a stream's bytes, as they come and however they are cut.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lily {

class EventReader {
 public:
  static constexpr std::size_t kMaxEventBytes = std::size_t{1} << 20;

  // Hands the `data` of each whole event to `take`, whose error ends the reading. kTooLarge: an
  // event over the bound.
  Result<void> add(std::string_view bytes,
                   const std::function<Result<void>(std::string_view data)>& take);

 private:
  void take_line();

  std::string line_, data_;
  bool has_data_ = false, whole_ = false;
};

}  // namespace lily
