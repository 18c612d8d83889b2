// Lines of sizes and trailers between runs of data.
#include "server/chunked_body.h"

#include <algorithm>
#include <charconv>

namespace lily::server {
namespace {

constexpr std::size_t kMaxFraming = 4096;  // Bytes of sizes, extensions and trailers in a row.
constexpr std::size_t kMaxDigits = 15;

}  // namespace

// True: `line` is whole, without its end, and lies in line_ until the next call.
bool ChunkedBody::take_line(std::string_view& in, std::string_view& line) {
  if (line_ended_) line_.clear();
  line_ended_ = false;
  while (!in.empty() && !line_ended_) {
    line_ += in.front();
    in.remove_prefix(1);
    ++n_framing_;
    line_ended_ = line_.ends_with("\r\n");
  }
  if (line_ended_) line = std::string_view(line_).substr(0, line_.size() - 2);
  return line_ended_;
}

ChunkedBody::State ChunkedBody::take_size(std::string_view line) {
  const auto digits = line.substr(0, line.find_first_of("; \t"));
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, left_, 16);
  if (digits.empty() || digits.size() > kMaxDigits || error != std::errc() || rest != end) {
    return State::kBroken;
  }
  part_ = left_ == 0 ? Part::kTrailer : Part::kData;
  return State::kMore;
}

ChunkedBody::State ChunkedBody::feed(std::string_view& in, std::string& out) {
  std::string_view line;
  while (!in.empty()) {
    if (part_ == Part::kData) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, in.size()));
      out.append(in.substr(0, size));
      in.remove_prefix(size);
      left_ -= size;
      n_framing_ = 0;
      if (left_ == 0) part_ = Part::kDataEnd;
      continue;
    }
    const bool whole = take_line(in, line);
    if (n_framing_ > kMaxFraming) return State::kBroken;
    if (!whole) return State::kMore;
    if (part_ == Part::kTrailer && line.empty()) return State::kDone;
    if (part_ == Part::kSize && take_size(line) == State::kBroken) return State::kBroken;
    if (part_ == Part::kDataEnd) {
      if (!line.empty()) return State::kBroken;
      part_ = Part::kSize;
    }
  }
  return State::kMore;
}

}  // namespace lily::server
