// RegexSplitter over PCRE2 with its just-in-time compiler; the only file that uses PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "text/split.h"
#include "text/unicode.h"

namespace lily {
namespace {

constexpr std::size_t kMaxPatternBytes = 4096;
constexpr std::uint32_t kMatchLimit = 10'000'000;  // Steps of one match.
constexpr std::size_t kJitStackBytes = std::size_t{8} << 20;

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeStack {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

// The pattern with \s and \S as Unicode's White_Space. \S inside brackets cannot be written so and
// stays.
std::string with_unicode_space(std::string_view pattern) {
  constexpr std::string_view kSpaceSet = R"(\p{Z}\x09-\x0d\x85)";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char kind = pattern[++i];
      if (kind == 's') {
        out.append(in_class ? "" : "[").append(kSpaceSet).append(in_class ? "" : "]");
      } else if (kind == 'S' && !in_class) {
        out.append("[^").append(kSpaceSet).append("]");
      } else {
        out += {'\\', kind};
      }
      continue;
    }
    in_class = in_class ? c != ']' : c == '[';
    out += c;
  }
  return out;
}

// What one split needs beside the compiled pattern.
struct Matcher {
  explicit Matcher(const pcre2_code* compiled)
      : code(compiled),
        data(pcre2_match_data_create_from_pattern(compiled, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(std::size_t{32} << 10, kJitStackBytes, nullptr)) {
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }

  // The next match from `at` on that is not empty, as {begin, end}; begin == text.size(): there is
  // none.
  std::array<std::size_t, 2> next(std::string_view text, std::size_t at) const {
    const int n = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                              PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data.get(), context.get());
    if (n < 0) return {text.size(), text.size()};
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    if (range[0] < at || range[1] <= range[0])
      return {text.size(), text.size()};  // \K can do that.
    return {range[0], range[1]};
  }

  const pcre2_code* code;
  std::unique_ptr<pcre2_match_data, FreeMatch> data;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
  std::unique_ptr<pcre2_jit_stack, FreeStack> stack;
};

}  // namespace

Result<RegexSplitter> RegexSplitter::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return Error{ErrorCode::kCorrupt, "split pattern of " + std::to_string(pattern.size()) +
                                          " bytes, expected at most " +
                                          std::to_string(kMaxPatternBytes)};
  }
  const std::string portable = with_unicode_space(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(portable.data()), portable.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code == nullptr) {
    std::array<unsigned char, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return Error{ErrorCode::kCorrupt, "split pattern '" + portable + "' at byte " +
                                          std::to_string(offset) + ": " +
                                          reinterpret_cast<const char*>(text.data())};
  }
  const std::shared_ptr<const void> owner(code, [](pcre2_code* c) { pcre2_code_free(c); });
  pcre2_jit_compile(
      code, PCRE2_JIT_COMPLETE);  // Without it (a system that forbids it) matching is only slower.
  return RegexSplitter(owner);
}

void RegexSplitter::split(std::string_view text, std::vector<std::uint32_t>& ends) const {
  const Matcher matcher(static_cast<const pcre2_code*>(code_.get()));
  for (std::size_t at = 0; at < text.size();) {
    const auto [begin, end] = matcher.next(text, at);
    if (begin > at) ends.push_back(static_cast<std::uint32_t>(begin));
    if (end > begin) ends.push_back(static_cast<std::uint32_t>(end));
    at = end;
  }
}

}  // namespace lily
