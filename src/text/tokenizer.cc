// The tokenizer's tables and the walk through a text: sections between added tokens, pieces of a
// section, tokens of a piece.
#include "text/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/log.h"
#include "text/bpe.h"
#include "text/split.h"
#include "text/tokenizer_file.h"
#include "text/unicode.h"

namespace lily {
namespace {

constexpr std::size_t kMaxTokenizerBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxSectionBytes = std::size_t{1}
                                         << 31;  // Offsets into a section are 32 bits.

// What merging makes of a token's own bytes: itself, or several tokens that no merge joins (201 of
// the family's).
enum class Whole : std::uint8_t { kUnknown, kYes, kNo };

struct Range {
  std::size_t begin, end;
};

}  // namespace

struct Tokenizer::Tables {
  Vocab vocab;
  Bpe bpe;
  AddedTokens added;
  std::optional<RegexSplitter> regex;  // None: the family's pattern.
  bool ignore_merges = false;
  TokenId n_ids = 0, vocab_size = 0;
  // Filled while encoding. Every thread finds the same answer, so the order of writes does not
  // matter.
  std::unique_ptr<std::atomic<Whole>[]> wholes;  // By token.

  class Encoding;
};

// One call of encode: the ids so far and the buffers.
class Tokenizer::Tables::Encoding {
 public:
  explicit Encoding(const Tables& tables) : tables_(tables) {}

  // The text with added tokens recognised where they lie in one of the ranges, which ascend and do
  // not touch.
  std::vector<TokenId> run(std::string_view text, std::span<const Range> trusted) {
    ids_.reserve(text.size() / 4 + 16);
    std::size_t done = 0;
    for (const Range& range : trusted) {
      std::size_t at = std::max(range.begin, done);
      while (true) {
        const AddedTokens::Match match = tables_.added.find(text, at, range.end);
        if (match.token == nullptr) break;
        section(text.substr(done, match.begin - done));
        ids_.push_back(match.token->id);
        done = at = match.begin + match.token->spelling.size();
      }
    }
    section(text.substr(done));
    return std::move(ids_);
  }

 private:
  // Text between added tokens: made valid and normal, then split.
  void section(std::string_view text) {
    TextState state = text_state(text);
    if (state == TextState::kNotUtf8) {
      valid_ = repair_utf8(text);
      text = valid_;
      state = text_state(text);
    }
    if (state == TextState::kNotNormal) {
      normal_.clear();
      append_nfc(text, normal_);
      text = normal_;
    }
    while (!text.empty()) {
      split(text.substr(0, kMaxSectionBytes));
      text.remove_prefix(std::min(text.size(), kMaxSectionBytes));
    }
  }

  void split(std::string_view text) {
    if (!tables_.regex) {
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = family_piece_end(text, at);
        piece(text.substr(at, end - at));
        at = end;
      }
      return;
    }
    ends_.clear();
    tables_.regex->split(text, ends_);
    std::size_t at = 0;
    for (const std::uint32_t end : ends_) {
      piece(text.substr(at, end - at));
      at = end;
    }
  }

  void piece(std::string_view text) {
    const TokenId id = tables_.vocab.find(text);
    if (id == kNoToken) return tables_.bpe.encode(text, scratch_, ids_);
    if (tables_.ignore_merges) return ids_.push_back(id);
    std::atomic<Whole>& whole = tables_.wholes[static_cast<std::size_t>(id)];
    const Whole known = whole.load(std::memory_order_relaxed);
    if (known == Whole::kYes) return ids_.push_back(id);
    const std::size_t before = ids_.size();
    tables_.bpe.encode(text, scratch_, ids_);
    if (known == Whole::kNo) return;
    const bool is_whole = ids_.size() == before + 1 && ids_.back() == id;
    whole.store(is_whole ? Whole::kYes : Whole::kNo, std::memory_order_relaxed);
  }

  const Tables& tables_;
  std::vector<TokenId> ids_;
  Bpe::Scratch scratch_;
  std::string valid_, normal_;
  std::vector<std::uint32_t> ends_;
};

Result<Tokenizer> Tokenizer::load(const Path& tokenizer_json) {
  LILY_TRY(const std::string json, read_file(tokenizer_json, kMaxTokenizerBytes));
  auto config = read_file(tokenizer_json.parent_path() / "tokenizer_config.json", kMaxConfigBytes);
  if (!config && config.error().code != ErrorCode::kNotFound) return std::move(config).error();
  auto tokenizer = parse(json, config.value_or(std::string()));
  if (!tokenizer) return with_context(tokenizer_json.string(), std::move(tokenizer).error());
  return tokenizer;
}

Result<Tokenizer> Tokenizer::parse(std::string_view tokenizer_json, std::string_view config_json) {
  LILY_TRY(TokenizerFile file, parse_tokenizer(tokenizer_json, config_json));
  auto tables = std::make_shared<Tables>();
  if (file.split_pattern.find("\\p{M}") == std::string::npos) {
    log_warning(
        "tokenizer.json: the split pattern lacks \\p{M}, as the older Qwen one did; text with "
        "combining marks "
        "gives other tokens than the model was trained on");
  }
  if (file.split_pattern != kFamilyPattern) {
    LILY_TRY(tables->regex, RegexSplitter::compile(file.split_pattern));
  }
  LILY_TRY(tables->bpe, Bpe::build(file.vocab, file.byte_ids, file.merges));
  tables->vocab = std::move(file.vocab);
  tables->added = AddedTokens(std::move(file.added));
  tables->ignore_merges = file.ignore_merges;
  tables->n_ids = tables->vocab.n_ids();
  tables->vocab_size = tables->vocab.n_tokens() + static_cast<TokenId>(tables->added.all().size());
  for (const AddedToken& token : tables->added.all())
    tables->n_ids = std::max(tables->n_ids, token.id + 1);
  tables->wholes =
      std::make_unique<std::atomic<Whole>[]>(static_cast<std::size_t>(tables->vocab.n_ids()));
  return Tokenizer(std::move(tables));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  const Range all{0, text.size()};
  return Tables::Encoding(*tables_).run(text, {&all, 1});
}

std::vector<TokenId> Tokenizer::encode_plain(std::string_view text) const {
  return Tables::Encoding(*tables_).run(text, {});
}

std::vector<TokenId> Tokenizer::encode_pieces(std::span<const TextPiece> pieces) const {
  std::string text;
  std::vector<Range> trusted;
  for (const TextPiece& piece : pieces) {
    const std::size_t begin = text.size();
    text += piece.text;
    if (!piece.trusted || piece.text.empty()) continue;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = text.size();
    } else {
      trusted.push_back({begin, text.size()});
    }
  }
  return Tables::Encoding(*tables_).run(text, trusted);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  std::string out;
  Utf8Repair repair;
  for (const TokenId id : ids) {
    if (options.skip_special && is_special(id)) continue;
    repair.push(token_bytes(id), out);
  }
  repair.finish(out);
  return out;
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  const std::string_view bytes = tables_->vocab.bytes(id);
  if (!bytes.empty()) return bytes;
  const AddedToken* added = tables_->added.by_id(id);
  return added != nullptr ? std::string_view(added->spelling) : std::string_view();
}

std::string Tokenizer::token_text(TokenId id) const {
  return repair_utf8(token_bytes(id));
}

std::optional<TokenId> Tokenizer::id_of(std::string_view spelling) const {
  const AddedToken* added = tables_->added.by_spelling(spelling);
  if (added == nullptr) return std::nullopt;
  return added->id;
}

bool Tokenizer::is_added(TokenId id) const {
  return tables_->added.by_id(id) != nullptr;
}

bool Tokenizer::is_special(TokenId id) const {
  const AddedToken* added = tables_->added.by_id(id);
  return added != nullptr && added->special;
}

TokenId Tokenizer::vocab_size() const {
  return tables_->vocab_size;
}
TokenId Tokenizer::n_ids() const {
  return tables_->n_ids;
}

}  // namespace lily
