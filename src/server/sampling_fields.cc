// Ranges as docs/API.md states them; what means "off" elsewhere means off here.
#include "server/sampling_fields.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>

#include "base/random.h"
#include "server/json_build.h"
#include "server/limits.h"
#include "spec/sampling_bounds.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

// A new seed for each request, short enough to be typed again.
std::uint64_t new_seed() {
  static std::atomic<std::uint32_t> count{0};
  const auto now =
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  const auto drawn = philox4x32({static_cast<std::uint32_t>(now),
                                 static_cast<std::uint32_t>(now >> 32), count.fetch_add(1), 0},
                                {static_cast<std::uint32_t>(::getpid()), 0});
  return drawn[0];
}

Result<void> read_float(Fields& fields, std::string_view key, const Fields::Range& range,
                        float& out) {
  LILY_TRY(const auto value, fields.number(key, range));
  if (value) out = static_cast<float>(*value);
  return {};
}

// 0 and -1 are off, and so is more than there is to choose from.
Result<void> read_top_k(Fields& fields, int vocab_size, int& out) {
  LILY_TRY(const auto value, fields.integer("top_k", {-1, 9e15, "-1 or 0 (off), or 1 and more"}));
  if (value) out = *value <= 0 || *value >= vocab_size ? 0 : static_cast<int>(*value);
  return {};
}

// The whole range of 64 bits, signed or not: seeds are names, not amounts.
Result<std::uint64_t> read_seed(Fields& fields) {
  const Json* value = fields.take("seed");
  if (value == nullptr) return new_seed();
  const char* const begin = value->text.data();
  const char* const end = begin + value->text.size();
  std::uint64_t large = 0;
  std::int64_t small = 0;
  if (value->is(JsonKind::kInteger)) {
    if (const auto read = std::from_chars(begin, end, large);
        read.ec == std::errc() && read.ptr == end)
      return large;
    if (const auto read = std::from_chars(begin, end, small);
        read.ec == std::errc() && read.ptr == end)
      return static_cast<std::uint64_t>(small);
  }
  return Error{ErrorCode::kInvalidArgument, "seed: expected a whole number of 64 bits"};
}

Error bad_bias(std::string_view key, std::string_view expected) {
  return {ErrorCode::kInvalidArgument,
          "logit_bias: " + in_quotes(key) + ", expected " + std::string(expected)};
}

Result<void> read_bias(Fields& fields, int vocab_size, SamplingParams& out) {
  const Json* value = fields.take("logit_bias");
  if (value == nullptr) return {};
  if (!value->is(JsonKind::kObject)) return wrong_kind("logit_bias", *value, "an object");
  for (std::size_t i = 0; i < value->keys.size(); ++i) {
    const std::string& key = value->keys[i];
    TokenId id = 0;
    const auto [rest, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || rest != key.data() + key.size() || id < 0 || id >= vocab_size) {
      return bad_bias(key, "a token id, 0 .. " + std::to_string(vocab_size - 1));
    }
    LILY_TRY(const double bias, read_number("logit_bias." + key, value->items[i]));
    if (!(bias >= -100 && bias <= 100)) return bad_bias(key, "a value of -100 .. 100");
    out.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  return {};
}

}  // namespace

Result<SamplingParams> read_sampling(Fields& fields, const SamplingDefaults& defaults) {
  SamplingParams params = with_defaults({}, defaults.model);
  LILY_RETURN_IF_ERROR(read_float(fields, "temperature", {0, 100, "0 .. 100"}, params.temperature));
  LILY_RETURN_IF_ERROR(read_float(fields, "top_p", {0, 1, "0 .. 1"}, params.top_p));
  LILY_RETURN_IF_ERROR(read_float(fields, "min_p", {0, 1, "0 .. 1"}, params.min_p));
  LILY_RETURN_IF_ERROR(
      read_float(fields, "presence_penalty", {-2, 2, "-2 .. 2"}, params.presence_penalty));
  LILY_RETURN_IF_ERROR(
      read_float(fields, "frequency_penalty", {-2, 2, "-2 .. 2"}, params.frequency_penalty));
  LILY_RETURN_IF_ERROR(read_float(fields, "repetition_penalty", {0.001, 10, "0.001 .. 10"},
                                  params.repetition_penalty));
  LILY_RETURN_IF_ERROR(read_top_k(fields, defaults.vocab_size, params.top_k));
  LILY_TRY(params.seed, read_seed(fields));
  LILY_RETURN_IF_ERROR(read_bias(fields, defaults.vocab_size, params));
  // The smallest set that there is, whatever asks for less: the most likely token alone.
  params.top_p = std::max(params.top_p, static_cast<float>(2 * kTopPBound.low));
  LILY_RETURN_IF_ERROR(check_sampling(params, defaults.vocab_size));
  return params;
}

Result<std::vector<std::string>> read_stop(Fields& fields, std::string_view key) {
  std::vector<std::string> out;
  const Json* value = fields.take(key);
  if (value == nullptr) return out;
  const std::string name(key);
  const bool list = value->is(JsonKind::kArray);
  if (!list && !value->is(JsonKind::kString))
    return wrong_kind(name, *value, "a string or a list of strings");
  if (list && value->items.size() > kMaxStops) {
    return Error{ErrorCode::kInvalidArgument, name + ": " + std::to_string(value->items.size()) +
                                                  " strings, at most " + std::to_string(kMaxStops)};
  }
  for (std::size_t i = 0; i < (list ? value->items.size() : 1); ++i) {
    const Json& one = list ? value->items[i] : *value;
    const std::string place = list ? item_place(name, i) : name;
    if (!one.is(JsonKind::kString)) return wrong_kind(place, one, "a string");
    if (one.text.empty() || one.text.size() > kMaxStopBytes) {
      return Error{ErrorCode::kInvalidArgument, place + ": " + std::to_string(one.text.size()) +
                                                    " bytes, expected 1 .. " +
                                                    std::to_string(kMaxStopBytes)};
    }
    out.push_back(one.text);
  }
  return out;
}

}  // namespace lily::server
