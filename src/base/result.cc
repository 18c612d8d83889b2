// The one table from error codes to names, exit statuses and HTTP statuses.
#include "base/result.h"

#include <array>

#include "base/check.h"

namespace lily {
namespace {

struct CodeRow {
  ErrorCode code;
  std::string_view name;
  int exit_status;
  int http_status;
};

// Exit statuses are documented in README.md; 0 is success, 1 is a bug or an unknown failure.
constexpr std::array kCodes{
    CodeRow{ErrorCode::kInvalidArgument, "invalid_argument", 2, 400},
    CodeRow{ErrorCode::kNotFound, "not_found", 3, 404},
    CodeRow{ErrorCode::kPermission, "permission_denied", 3, 403},
    CodeRow{ErrorCode::kUnsupported, "unsupported", 4, 400},
    CodeRow{ErrorCode::kCorrupt, "corrupt", 5, 500},
    CodeRow{ErrorCode::kTooLarge, "too_large", 6, 413},
    CodeRow{ErrorCode::kNoSpace, "no_space", 7, 507},
    CodeRow{ErrorCode::kNoMemory, "no_memory", 8, 507},
    CodeRow{ErrorCode::kCancelled, "cancelled", 130, 499},
    CodeRow{ErrorCode::kBusy, "busy", 9, 429},
    CodeRow{ErrorCode::kIo, "io", 7, 500},
    CodeRow{ErrorCode::kNotFinite, "not_finite", 10, 500},
    CodeRow{ErrorCode::kDevice, "device", 11, 503},
};

const CodeRow& row(ErrorCode code) {
  const auto& found = kCodes[static_cast<std::size_t>(code)];
  LILY_CHECK(found.code == code);
  return found;
}

}  // namespace

std::string_view code_name(ErrorCode code) { return row(code).name; }
int exit_status(ErrorCode code) { return row(code).exit_status; }
int http_status(ErrorCode code) { return row(code).http_status; }

}  // namespace lily
