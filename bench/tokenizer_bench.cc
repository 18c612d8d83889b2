// Tokenizer speed on one core: MB/s of processor time, encoding and decoding text of several kinds;
// and load time.
//   tokenizer_bench [TOKENIZER_JSON] [TEXT_FILE...]
// Each line: kind, bytes, tokens, minimum/median/maximum MB/s over the runs. First run excluded: it
// fills caches.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "text/tokenizer.h"

namespace lily {
namespace {

constexpr std::size_t kMegabyte = 1'000'000;
constexpr int kRuns = 7;

// Processor time of this process, so that busy neighbours blur the figures less.
double now_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::string repeated(std::string_view text) {
  std::string out;
  while (out.size() < kMegabyte) out += text;
  return out;
}

// A megabyte of draws from the list.
std::string drawn(const std::vector<std::string>& choices, unsigned seed) {
  std::mt19937 random(seed);
  std::string out;
  while (out.size() < kMegabyte) out += choices[random() % choices.size()];
  return out;
}

// Sentences of words drawn by a steep law, as in prose; one word in forty is made up and so no
// token.
std::string english() {
  const std::vector<std::string> words = {
      "the",         "of",           "and",         "to",       "in",         "a",
      "is",          "that",         "for",         "it",       "was",        "on",
      "with",        "as",           "they",        "river",    "morning",    "because",
      "something",   "government",   "understand",  "mountain", "between",    "question",
      "remember",    "although",     "language",    "children", "important",  "different",
      "interesting", "development",  "Shakespeare", "quietly",  "photograph", "whisper",
      "lighthouse",  "considerable", "neighbour",   "don't",    "it's",       "Lisbon"};
  std::mt19937 random(1);
  std::string out;
  for (int n = 1; out.size() < kMegabyte; ++n) {
    const std::size_t steep = (random() % words.size()) * (random() % words.size()) / words.size();
    if (random() % 40 == 0) {
      for (int i = 0; i < 9; ++i) out += static_cast<char>('a' + random() % 26);
    } else {
      out += words[steep];
    }
    out += n % 120 == 0 ? ".\n\n" : n % 12 == 0 ? ". " : n % 7 == 0 ? ", " : " ";
  }
  return out;
}

std::string code() {
  const std::vector<std::string> lines = {
      "    for (std::size_t i = 0; i < values.size(); ++i) {\n",
      "        total += weights[i] * values[i];\n",
      "    }\n",
      "    if (result != kSuccess) return make_error(result, \"cannot open file\");\n",
      "\n",
      "}  // namespace storage\n",
      "def parse_header(self, stream, *, limit=4096):\n",
      "        self._buffer = bytearray(limit)\n",
      "  const response = await fetch(`/api/v2/users/${userId}`, { method: 'POST' });\n",
      "#include <unordered_map>\n",
      "SELECT id, created_at FROM orders WHERE status = 'open' AND total > 1000;\n",
      "    return x ** 2 + y ** 2\n"};
  return drawn(lines, 2);
}

std::string chinese() {
  const std::vector<std::string> clauses = {"今天天气很好",           "我们一起去公园散步",
                                            "人工智能正在改变世界",   "他说他明天要去北京开会",
                                            "这个问题需要认真研究",   "中国的经济发展速度",
                                            "孩子们在院子里玩耍",     "请把文件发送到我的邮箱",
                                            "历史上有许多著名的诗人", "科学家发现了一种新的材料"};
  std::mt19937 random(3);
  std::string out;
  while (out.size() < kMegabyte) {
    out += clauses[random() % clauses.size()];
    if (random() % 2 == 0) out += clauses[random() % clauses.size()];
    out += random() % 3 == 0 ? "。" : "，";
  }
  return out;
}

std::vector<std::string> code_points(std::uint32_t first, std::uint32_t last) {
  std::vector<std::string> out;
  for (std::uint32_t c = first; c <= last; ++c) {
    std::string text;
    if (c >= 0x10000) {
      text = {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
              static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    } else {
      text = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    }
    out.push_back(text);
  }
  return out;
}

std::vector<std::string> ascii_letters() {
  std::vector<std::string> out;
  for (char c = 'a'; c <= 'z'; ++c) out.emplace_back(1, c);
  return out;
}

void report(const char* kind, std::size_t bytes, std::size_t tokens, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto rate = [bytes](double s) { return static_cast<double>(bytes) / s / 1e6; };
  std::printf("%-26s %9zu bytes %8zu tokens   %7.1f %7.1f %7.1f MB/s\n", kind, bytes, tokens,
              rate(seconds.back()), rate(seconds[seconds.size() / 2]), rate(seconds.front()));
}

void measure(const Tokenizer& tokenizer, const char* kind, const std::string& text) {
  std::vector<TokenId> ids;
  std::vector<double> seconds;
  for (int run = 0; run <= kRuns; ++run) {
    const auto start = now_seconds();
    ids = tokenizer.encode(text);
    if (run > 0) seconds.push_back(now_seconds() - start);
  }
  report(kind, text.size(), ids.size(), seconds);
}

void measure_decoding(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.encode(text);
  std::vector<double> seconds;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = now_seconds();
    static_cast<void>(tokenizer.decode(ids));
    seconds.push_back(now_seconds() - start);
  }
  report("decode english", text.size(), ids.size(), seconds);
}

int run(int argc, char** argv) {
  const Path path = argc > 1 ? argv[1] : "build/realtok/tokenizer.json";
  for (int i = 0; i < 3; ++i) {
    const auto start = now_seconds();
    const auto loaded = Tokenizer::load(path);
    std::printf("load %.3f s\n", now_seconds() - start);
    if (!loaded) return std::fprintf(stderr, "%s\n", loaded.error().message.c_str()), 1;
  }
  const Tokenizer tokenizer = Tokenizer::load(path).value();
  std::printf("%-26s %15s %15s   %7s %7s %7s\n", "encode", "", "", "min", "median", "max");
  measure(tokenizer, "english", english());
  measure(tokenizer, "code", code());
  measure(tokenizer, "chinese", chinese());
  measure(tokenizer, "one letter", repeated("a"));
  measure(tokenizer, "spaces", repeated(" "));
  measure(tokenizer, "random letters, no spaces", drawn(ascii_letters(), 4));
  measure(tokenizer, "emoji", drawn(code_points(0x1F300, 0x1F5FF), 5));
  measure(tokenizer, "random white space", drawn({" ", "\t", "\n", "\r", "  "}, 6));
  measure(tokenizer, "combining marks", drawn(code_points(0x300, 0x36F), 7));
  measure(tokenizer, "digits", repeated("0123456789"));
  measure(tokenizer, "control-token beginnings", repeated("<|im_<|"));
  measure_decoding(tokenizer, english());
  for (int i = 2; i < argc; ++i) {
    if (const auto text = read_file(argv[i], std::size_t{1} << 30))
      measure(tokenizer, argv[i], *text);
  }
  return 0;
}

}  // namespace
}  // namespace lily

int main(int argc, char** argv) {
  return lily::run(argc, argv);
}
