// Result: errors travel, and every code has a name, an exit status and an HTTP status.
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace lily {
namespace {

Result<std::unique_ptr<int>> half(int n) {
  if (n % 2) return Error{ErrorCode::kInvalidArgument, std::to_string(n) + ": expected an even number"};
  return std::make_unique<int>(n / 2);
}

Result<int> quarter(int n) {
  LILY_TRY(auto first, half(n));
  LILY_TRY(const auto second, half(*first));
  return *second;
}

TEST(Result, TryPassesValuesAndErrorsOn) {
  EXPECT_EQ(quarter(12).value(), 3);
  const auto failed = quarter(6);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message, "3: expected an even number");
}

TEST(Result, ContextIsPutInFront) {
  const Error error = with_context("reading a", {ErrorCode::kIo, "broken"});
  EXPECT_EQ(error.message, "reading a: broken");
  EXPECT_EQ(error.code, ErrorCode::kIo);
}

TEST(ErrorCodes, EachHasItsOwnNameAndFailingStatuses) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ErrorCode::kDevice); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    EXPECT_TRUE(names.insert(code_name(code)).second) << code_name(code);
    EXPECT_GT(exit_status(code), 1);
    EXPECT_GE(http_status(code), 400);
  }
}

}  // namespace
}  // namespace lily
