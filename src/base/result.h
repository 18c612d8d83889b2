// Result<T>: what a call returns when the outside world (a file, a request, memory, a device) can make it fail.
// A fault that only a bug can cause is a LILY_CHECK (check.h) instead.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace lily {

enum class ErrorCode {
  kInvalidArgument,  // The caller's words are wrong: flags, a request, a template input.
  kNotFound,         // A file, folder, session or id that is not there.
  kPermission,       // The system refuses access.
  kUnsupported,      // Well-formed, but not what Lily runs: another family, format or quantisation.
  kCorrupt,          // Data that contradicts itself: a truncated shard, a bad checksum.
  kTooLarge,         // Over a stated bound: prompt, context, body, file.
  kNoSpace,          // The disk is full.
  kNoMemory,         // Memory or a device budget is used up.
  kCancelled,        // Stopped on request.
  kBusy,             // A bounded queue is full, or a lock is held for too long; try again.
  kIo,               // Reading or writing failed for another reason.
  kNotFinite,        // The model computed NaN or infinity.
  kDevice,           // A device failed or is missing.
};

struct Error {
  ErrorCode code;
  std::string message;  // What was being done, what was found, what was expected.
};

// The one table from codes to the world: "invalid_argument" for machines, an exit status, an HTTP status.
std::string_view code_name(ErrorCode code);
int exit_status(ErrorCode code);
int http_status(ErrorCode code);

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}
};

// "while packing layer 3: disk full": the same error with what the caller was doing put in front.
inline Error with_context(std::string_view doing, Error error) {
  error.message.insert(0, ": ");
  error.message.insert(0, doing);
  return error;
}

}  // namespace lily

#define LILY_CONCAT_(a, b) a##b
#define LILY_CONCAT(a, b) LILY_CONCAT_(a, b)
#define LILY_TRY_(tmp, target, expr)                   \
  auto tmp = (expr);                                   \
  if (!tmp.has_value()) return std::move(tmp).error(); \
  target = *std::move(tmp)
// LILY_TRY(auto x, f()): x is f()'s value, or the enclosing function returns f()'s error.
#define LILY_TRY(target, expr) LILY_TRY_(LILY_CONCAT(lily_try_, __LINE__), target, expr)
// LILY_RETURN_IF_ERROR(f()): the same for a Result<void>.
#define LILY_RETURN_IF_ERROR(expr)                                                      \
  if (auto lily_result = (expr); !lily_result.has_value()) return std::move(lily_result).error()
