// Lines, fields, and the empty line that ends an event.
#include "measure/event_reader.h"

#include <utility>

namespace lily {

// Fields other than data, and comments, tell nothing here.
void EventReader::take_line() {
  std::string_view line = line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) {
    whole_ = has_data_;
  } else if (line.starts_with("data:")) {
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (std::exchange(has_data_, true)) data_ += '\n';
    data_ += line;
  }
  line_.clear();
}

Result<void> EventReader::add(std::string_view bytes,
                              const std::function<Result<void>(std::string_view data)>& take) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
    if (line_.size() + data_.size() > kMaxEventBytes) {
      return Error{ErrorCode::kTooLarge,
                   "an event of more than " + std::to_string(kMaxEventBytes) + " bytes"};
    }
    if (end == bytes.npos) break;
    take_line();
    if (!std::exchange(whole_, false)) continue;
    has_data_ = false;
    LILY_RETURN_IF_ERROR(take(std::exchange(data_, {})));
  }
  return {};
}

}  // namespace lily
