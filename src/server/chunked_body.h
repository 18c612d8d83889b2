// A body in chunks, taken apart as its bytes arrive.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lily::server {

class ChunkedBody {
 public:
  enum class State { kMore, kDone, kBroken };

  // Takes bytes off the front of `in` and appends what they carry to `out`. Stops behind the body's
  // end.
  State feed(std::string_view& in, std::string& out);

 private:
  enum class Part { kSize, kData, kDataEnd, kTrailer };
  State take_size(std::string_view line);
  bool take_line(std::string_view& in, std::string_view& line);

  Part part_ = Part::kSize;
  std::uint64_t left_ = 0;     // Of the current chunk.
  std::string line_;           // Begun, and not yet ended.
  std::size_t n_framing_ = 0;  // Bytes of lines since the last byte of data.
  bool line_ended_ = false;
};

}  // namespace lily::server
