// Reading recorded answers: JSON with a few alternatives a position, safetensors with whole distributions.
#include "engine/golden.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "backend/args.h"
#include "text/chat_json.h"
#include "weights/safetensors.h"

namespace lily {
namespace {

constexpr std::size_t kMaxGoldenTokens = 1 << 20;

Error corrupt(const std::string& where, const std::string& what) {
  return {ErrorCode::kCorrupt, where + ": " + what};
}

Result<std::vector<double>> read_numbers(const Json& object, std::string_view key, const std::string& where) {
  const Json* list = object.find(key);
  const std::string at = where + "." + std::string(key);
  if (!list || !list->is(JsonKind::kArray)) return corrupt(at, "expected a list of numbers");
  std::vector<double> out;
  for (const Json& item : list->items) {
    if (!item.is(JsonKind::kInteger) && !item.is(JsonKind::kReal)) return corrupt(at, "expected numbers, found " + std::string(kind_name(item.kind)));
    out.push_back(std::strtod(item.text.c_str(), nullptr));
  }
  return out;
}

Result<std::vector<TokenId>> to_ids(const std::vector<double>& numbers, int vocab_used, const std::string& where) {
  std::vector<TokenId> ids;
  for (const double n : numbers) {
    if (!(n >= 0 && n < vocab_used) || n != static_cast<double>(static_cast<TokenId>(n))) {
      return corrupt(where, "token " + std::to_string(n) + ", expected an id under " + std::to_string(vocab_used));
    }
    ids.push_back(static_cast<TokenId>(n));
  }
  return ids;
}

Result<std::vector<GoldenTop>> read_tops(const Json& row, int vocab_used, const std::string& where) {
  const Json* ids = row.find("top_ids");
  const Json* log_probs = row.find("top_log_probs");
  if (!ids || !log_probs || ids->items.size() != log_probs->items.size()) {
    return corrupt(where, "top_ids and top_log_probs: expected two lists of one length");
  }
  std::vector<GoldenTop> tops;
  for (std::size_t i = 0; i < ids->items.size(); ++i) {
    Json pair = Json::object();
    pair.set("ids", ids->items[i]);
    pair.set("log_probs", log_probs->items[i]);
    const std::string at = where + ".top[" + std::to_string(i) + "]";
    LILY_TRY(const auto numbers, read_numbers(pair, "ids", at));
    GoldenTop top;
    LILY_TRY(top.ids, to_ids(numbers, vocab_used, at));
    LILY_TRY(top.log_probs, read_numbers(pair, "log_probs", at));
    if (top.ids.size() < 2 || top.ids.size() > kMaxTopLogProbs || top.ids.size() != top.log_probs.size()) {
      return corrupt(at, "expected 2 .. " + std::to_string(kMaxTopLogProbs) + " pairs");
    }
    tops.push_back(std::move(top));
  }
  return tops;
}

// -1: there is none, or none that fits.
int read_length(const Json* value) {
  int n = -1;
  if (value && value->is(JsonKind::kInteger)) {
    std::from_chars(value->text.data(), value->text.data() + value->text.size(), n);
  }
  return n;
}

Result<GoldenRow> read_json_row(const Json& row, int vocab_used, const std::string& where) {
  GoldenRow out;
  const Json* skill = row.find("skill");
  out.name = where + (skill && skill->is(JsonKind::kString) ? " " + skill->text : "");
  LILY_TRY(const auto ids, read_numbers(row, "ids", where));
  LILY_TRY(out.ids, to_ids(ids, vocab_used, where + ".ids"));
  LILY_TRY(out.tops, read_tops(row, vocab_used, where));
  LILY_TRY(out.next_log_probs, read_numbers(row, "next_log_prob", where));
  LILY_TRY(const auto greedy, read_numbers(row, "greedy", where));
  LILY_TRY(out.greedy, to_ids(greedy, vocab_used, where + ".greedy"));
  out.prompt_length = read_length(row.find("prompt_length"));
  const auto n = out.ids.size();
  if (n < 2 || n > kMaxGoldenTokens || out.tops.size() != n || out.next_log_probs.size() + 1 != n) {
    return corrupt(where, std::to_string(n) + " ids, " + std::to_string(out.tops.size()) + " top lists, " +
                              std::to_string(out.next_log_probs.size()) + " log-probabilities do not fit together");
  }
  if (out.prompt_length < 1 || static_cast<std::size_t>(out.prompt_length) >= n) {
    return corrupt(where + ".prompt_length", "expected 1 .. " + std::to_string(n - 1));
  }
  return out;
}

Result<std::vector<GoldenRow>> read_json(const Path& path, int vocab_used) {
  LILY_TRY(const auto text, read_file(path, kMaxJsonBytes));
  LILY_TRY(const Json file, parse_json(text));
  const Json* rows = file.find("rows");
  if (!rows || !rows->is(JsonKind::kArray) || rows->items.empty()) return corrupt(path.string(), "expected {\"rows\": [...]}");
  std::vector<GoldenRow> out;
  for (std::size_t i = 0; i < rows->items.size(); ++i) {
    LILY_TRY(auto row, read_json_row(rows->items[i], vocab_used, "rows[" + std::to_string(i) + "]"));
    out.push_back(std::move(row));
  }
  return out;
}

// The two most likely entries of each row: what top-1 and its margin need.
GoldenTop two_largest(std::span<const float> log_probs) {
  std::vector<TokenId> order(log_probs.size());
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [&](TokenId a, TokenId b) {
    const float x = log_probs[static_cast<std::size_t>(a)], y = log_probs[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + 2, order.end(), larger);
  order.resize(2);
  return {order, {log_probs[static_cast<std::size_t>(order[0])], log_probs[static_cast<std::size_t>(order[1])]}};
}

// Of each id that follows a recorded row.
Result<std::vector<double>> log_probs_of_the_text(const GoldenRow& row, std::size_t vocab) {
  std::vector<double> out;
  for (std::size_t i = static_cast<std::size_t>(row.first); i + 1 < row.ids.size(); ++i) {
    const TokenId next = row.ids[i + 1];
    if (next < 0 || static_cast<std::size_t>(next) >= vocab) {
      return corrupt(row.name + ".ids", "token " + std::to_string(next) + ", expected an id under " + std::to_string(vocab));
    }
    out.push_back(row.log_probs[(i - static_cast<std::size_t>(row.first)) * vocab + static_cast<std::size_t>(next)]);
  }
  return out;
}

template <typename T>
std::vector<T> copy_of(std::span<const std::byte> bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

const SourceTensor* find(const SafetensorsFile& file, const std::string& name) {
  const auto found = std::find_if(file.tensors().begin(), file.tensors().end(),
                                  [&](const SourceTensor& tensor) { return tensor.name == name; });
  return found == file.tensors().end() ? nullptr : &*found;
}

// Texts s0, s1, ...: sK.ids [T] i32 and sK.log_probs [R, vocab_used] f32, the last R positions.
Result<std::vector<GoldenRow>> read_safetensors(const Path& path, int vocab_used) {
  LILY_TRY(const auto file, SafetensorsFile::open(path));
  std::vector<GoldenRow> out;
  for (int k = 0;; ++k) {
    const std::string name = std::string("s").append(std::to_string(k));
    const auto* ids = find(file, name + ".ids");
    const auto* log_probs = find(file, name + ".log_probs");
    if (!ids || !log_probs) break;
    if (ids->dtype != "I32" || log_probs->dtype != "F32" || log_probs->shape.size() != 2 ||
        log_probs->shape[1] != vocab_used || log_probs->shape[0] < 1) {
      return corrupt(path.string() + ": " + name, "expected ids i32 [T] and log_probs f32 [R, " + std::to_string(vocab_used) + "]");
    }
    GoldenRow row{.name = name, .ids = copy_of<TokenId>(file.bytes_of(*ids))};
    row.log_probs = copy_of<float>(file.bytes_of(*log_probs));
    const auto n_rows = static_cast<std::size_t>(log_probs->shape[0]);
    if (row.ids.size() < n_rows) return corrupt(path.string() + ": " + name, "more rows than ids");
    row.first = static_cast<int>(row.ids.size() - n_rows);
    const auto vocab = static_cast<std::size_t>(vocab_used);
    for (std::size_t i = 0; i < n_rows; ++i) row.tops.push_back(two_largest(std::span(row.log_probs).subspan(i * vocab, vocab)));
    LILY_TRY(row.next_log_probs, log_probs_of_the_text(row, vocab));
    out.push_back(std::move(row));
  }
  if (out.empty()) return corrupt(path.string(), "holds no s0.ids and s0.log_probs");
  return out;
}

}  // namespace

Result<std::vector<GoldenRow>> read_golden(const Path& golden, int vocab_used) {
  if (golden.extension() == ".safetensors") return read_safetensors(golden, vocab_used);
  if (golden.extension() == ".json") return read_json(golden, vocab_used);
  return Error{ErrorCode::kInvalidArgument, golden.string() + ": expected a .json or a .safetensors file"};
}

}  // namespace lily
