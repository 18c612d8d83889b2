// Reading a request's object field by field, so that every field is either used, listed as ignored,
// or refused by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/chat_json.h"

namespace lily::server {

// A field that is null counts as one that is not there.
class Fields {
 public:
  // `place` is put before names in errors: "", or "stream_options.".
  explicit Fields(const Json& object, std::string place = "")
      : object_(object), place_(std::move(place)), used_(object.keys.size(), false) {}

  // The value, or nullptr. Marks it as used.
  const Json* take(std::string_view key);

  Result<std::optional<bool>> boolean(std::string_view key);
  Result<std::optional<std::string>> text(std::string_view key);
  struct Range {
    double low, high;
    const char* words;  // "0 .. 2"
  };
  Result<std::optional<double>> number(std::string_view key, const Range& range);
  Result<std::optional<std::int64_t>> integer(std::string_view key, const Range& range);

  // Well-formed, and without any effect here: goes into ignored().
  void ignore(std::string_view key);
  // Not served: kUnsupported unless absent, null, or one of the neutral spellings ("1", "false",
  // "\"text\"", "[]").
  Result<void> refuse_unless(std::string_view key, std::initializer_list<std::string_view> neutral,
                             std::string_view reason);

  // What nobody asked for is ignored, and said to be.
  std::vector<std::string> ignored();

 private:
  Error wrong(std::string_view key, const Json& found, std::string_view expected) const;

  const Json& object_;
  std::string place_;
  std::vector<bool> used_;
  std::vector<std::string> ignored_;
};

// Its text as a number; kInvalidArgument: "place: found a string, expected a number".
Result<double> read_number(std::string_view place, const Json& value);
// Whole numbers in whichever spelling: 5, 5.0.
Result<std::int64_t> read_integer(std::string_view place, const Json& value);

}  // namespace lily::server
