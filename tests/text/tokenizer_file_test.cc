// Reading tokenizer.json: what is accepted, and how each kind of wrong file is refused.
#include <gtest/gtest.h>

#include <functional>
#include <new>

#include "tests/text/small_tokenizer.h"
#include "text/tokenizer.h"

namespace {

// Allocations that may fail (simdjson's) until one does; negative: none fails.
int allocations_left = -1;

}  // namespace

void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) --allocations_left;
  return ::operator new[](size);
}

namespace lily {
namespace {

using Json = TokenizerJson;

TEST(TokenizerFile, SmallFileWithBothSpellingsOfMergesWorks) {
  const auto t = Tokenizer::parse(small_tokenizer().dump());
  ASSERT_TRUE(t.has_value()) << t.error().message;
  EXPECT_EQ(t->encode("abc<end>ab"), (std::vector<TokenId>{257, 260, 256}));
  EXPECT_EQ(t->n_ids(), 261);
  EXPECT_EQ(t->vocab_size(), 259) << "ids 258 and 259 have no token";
  EXPECT_EQ(t->decode(std::vector<TokenId>{258, 257, 259, 260}), "abc<end>");
  EXPECT_EQ(t->decode(std::vector<TokenId>{257, 260}, {.skip_special = true}), "abc");
}

TEST(TokenizerFile, IgnoreMergesTakesAPieceThatIsATokenWhole) {
  Json json = small_tokenizer();
  json["model"]["vocab"]["xyz"] = 258;  // No merge makes it.
  EXPECT_EQ(Tokenizer::parse(json.dump())->encode("xyz"), (std::vector<TokenId>{'x', 'y', 'z'}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(Tokenizer::parse(json.dump())->encode("xyz xyz"),
            (std::vector<TokenId>{258, ' ', 'x', 'y', 'z'}));
}

TEST(TokenizerFile, AnEmptyFileIsNamed) {
  const auto t = Tokenizer::parse(std::string_view());
  ASSERT_FALSE(t.has_value());
  EXPECT_EQ(t.error().message, "tokenizer.json: the file is empty");
}

TEST(TokenizerFile, AddedTokensMatchLongestFirstFromTheLeft) {
  Json json = small_tokenizer();
  json["added_tokens"] = Json::array({added(260, "<a"), added(261, "<ab>"), added(262, "b><ab")});
  const auto t = Tokenizer::parse(json.dump());
  ASSERT_TRUE(t.has_value()) << t.error().message;
  EXPECT_EQ(t->encode("<ab><ab"), (std::vector<TokenId>{261, 260, 'b'}));
  EXPECT_EQ(t->encode("b><ab>"), (std::vector<TokenId>{262, '>'}));
}

TEST(TokenizerFile, ConfigCompletesTheAddedTokens) {
  const Json config = {
      {"added_tokens_decoder", {{"260", added(260, "<end>")}, {"261", added(261, "<more>")}}}};
  const auto t = Tokenizer::parse(small_tokenizer().dump(), config.dump());
  ASSERT_TRUE(t.has_value()) << t.error().message;
  EXPECT_EQ(t->encode("<more><end>"), (std::vector<TokenId>{261, 260}));
}

TEST(TokenizerFile, ConfigThatContradictsIsRefused) {
  const Json other = {{"added_tokens_decoder", {{"260", added(260, "<other>")}}}};
  const auto t = Tokenizer::parse(small_tokenizer().dump(), other.dump());
  ASSERT_FALSE(t.has_value());
  EXPECT_EQ(t.error().message,
            "added_tokens_decoder.'260': '<other>', but tokenizer.json has '<end>'");
  const Json no_id = {{"added_tokens_decoder", {{"26x", added(260, "<end>")}}}};
  EXPECT_FALSE(Tokenizer::parse(small_tokenizer().dump(), no_id.dump()).has_value());
  EXPECT_FALSE(Tokenizer::parse(small_tokenizer().dump(), "[1]").has_value());
  EXPECT_FALSE(Tokenizer::parse(small_tokenizer().dump(), "{").has_value());
}

TEST(TokenizerFile, PatternWithoutMarksIsFollowed) {
  Json json = small_tokenizer();
  const char* old_pattern =
      R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = old_pattern;
  json["model"]["vocab"]["\u00CC\u0123"] = 258;  // U+0301 in the byte alphabet: 0xCC 0x81.
  json["model"]["vocab"]["b\u00CC\u0123"] = 259;
  json["model"]["merges"].push_back(Json::array({"\u00CC", "\u0123"}));
  json["model"]["merges"].push_back(Json::array({"b", "\u00CC\u0123"}));
  const auto t = Tokenizer::parse(json.dump());
  ASSERT_TRUE(t.has_value()) << t.error().message;
  EXPECT_EQ(t->encode("b\u0301"), (std::vector<TokenId>{'b', 258}))
      << "the mark is a piece of its own";
}

struct Refusal {
  const char* name;
  std::function<void(Json&)> damage;
  ErrorCode code;
  const char* message;  // Part of it.
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

class TokenizerFileRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(TokenizerFileRefusal, SaysWhatIsWrong) {
  Json json = small_tokenizer();
  GetParam().damage(json);
  const auto t = Tokenizer::parse(json.dump());
  ASSERT_FALSE(t.has_value());
  EXPECT_EQ(t.error().code, GetParam().code) << t.error().message;
  EXPECT_NE(t.error().message.find(GetParam().message), std::string::npos) << t.error().message;
}

Json& model(Json& json) {
  return json["model"];
}
Json& split(Json& json) {
  return json["pre_tokenizer"]["pretokenizers"][0];
}
Json& bytes(Json& json) {
  return json["pre_tokenizer"]["pretokenizers"][1];
}

constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported, kCorrupt = ErrorCode::kCorrupt;

const Refusal kOtherKinds[] = {
    {"model_type", [](Json& j) { model(j)["type"] = "Unigram"; }, kUnsupported,
     "model: type 'Unigram' is not supported, expected 'BPE'"},
    {"byte_fallback", [](Json& j) { model(j)["byte_fallback"] = true; }, kUnsupported,
     "model.byte_fallback: true"},
    {"dropout", [](Json& j) { model(j)["dropout"] = 0.1; }, kUnsupported, "model.dropout"},
    {"unk_token", [](Json& j) { model(j)["unk_token"] = "<unk>"; }, kUnsupported,
     "model.unk_token: '<unk>'"},
    {"prefix", [](Json& j) { model(j)["continuing_subword_prefix"] = "##"; }, kUnsupported,
     "continuing_subword_prefix"},
    {"normalizer", [](Json& j) { j["normalizer"]["type"] = "NFKC"; }, kUnsupported,
     "normalizer: type 'NFKC'"},
    {"pre_tokenizer", [](Json& j) { j["pre_tokenizer"]["type"] = "Whitespace"; }, kUnsupported,
     "pre_tokenizer: type 'Whitespace'"},
    {"one_step", [](Json& j) { j["pre_tokenizer"]["pretokenizers"].erase(1); }, kUnsupported,
     "pre_tokenizer: 1 steps"},
    {"behavior", [](Json& j) { split(j)["behavior"] = "Removed"; }, kUnsupported,
     "behavior: 'Removed'"},
    {"invert", [](Json& j) { split(j)["invert"] = true; }, kUnsupported, "invert: true"},
    {"prefix_space", [](Json& j) { bytes(j)["add_prefix_space"] = true; }, kUnsupported,
     "add_prefix_space: true"},
    {"own_regex", [](Json& j) { bytes(j).erase("use_regex"); }, kUnsupported, "use_regex: true"},
    {"decoder", [](Json& j) { j["decoder"]["type"] = "Metaspace"; }, kUnsupported,
     "decoder: type 'Metaspace'"},
    {"post_processor", [](Json& j) { j["post_processor"]["type"] = "TemplateProcessing"; },
     kUnsupported, "TemplateProcessing"},
    {"truncation",
     [](Json& j) {
       j["truncation"] = {{"max_length", 8}};
     },
     kUnsupported, "truncation"},
    {"added_lstrip", [](Json& j) { j["added_tokens"][0]["lstrip"] = true; }, kUnsupported,
     "added_tokens[0].lstrip: true"},
    {"added_normalized", [](Json& j) { j["added_tokens"][0]["normalized"] = true; }, kUnsupported,
     "normalized: true"},
};

const Refusal kDamaged[] = {
    {"no_model", [](Json& j) { j.erase("model"); }, kCorrupt, "model: missing, expected an object"},
    {"no_normalizer", [](Json& j) { j["normalizer"] = nullptr; }, kCorrupt, "normalizer: missing"},
    {"empty_vocab", [](Json& j) { model(j)["vocab"] = Json::object(); }, kCorrupt,
     "no token for byte 0"},
    {"vocab_list", [](Json& j) { model(j)["vocab"] = Json::array(); }, kCorrupt,
     "model.vocab: found an array, expected an object"},
    {"missing_byte", [](Json& j) { model(j)["vocab"].erase("x"); }, kCorrupt,
     "no token for byte 120"},
    {"same_id", [](Json& j) { model(j)["vocab"]["zz"] = 257; }, kCorrupt,
     "id 257 is both 'abc' and 'zz'"},
    {"negative_id", [](Json& j) { model(j)["vocab"]["zz"] = -1; }, kCorrupt,
     "id -1, expected 0 to 1048575"},
    {"huge_id", [](Json& j) { model(j)["vocab"]["zz"] = 1 << 20; }, kCorrupt,
     "model.vocab.'zz': id 1048576"},
    {"endless_id", [](Json& j) { model(j)["vocab"]["zz"] = 1e300; }, kCorrupt,
     "found a number, expected a token id"},
    {"id_text", [](Json& j) { model(j)["vocab"]["zz"] = "7"; }, kCorrupt,
     "found a string, expected a token id"},
    {"empty_token", [](Json& j) { model(j)["vocab"][""] = 300; }, kCorrupt, "empty token, id 300"},
    {"alphabet", [](Json& j) { model(j)["vocab"]["水"] = 300; }, kCorrupt,
     "'水', id 300, is not written in the byte alphabet"},
    {"no_merges", [](Json& j) { model(j).erase("merges"); }, kCorrupt, "model.merges: missing"},
    {"merge_one_part", [](Json& j) { model(j)["merges"][0] = "ab"; }, kCorrupt,
     "model.merges[0]: expected two tokens"},
    {"merge_three_parts",
     [](Json& j) {
       model(j)["merges"][0] = Json::array({"a", "b", "c"});
     },
     kCorrupt, "expected two tokens"},
    {"merge_number", [](Json& j) { model(j)["merges"][1] = 7; }, kCorrupt,
     "model.merges[1]: expected two tokens"},
    {"merge_of_numbers",
     [](Json& j) {
       model(j)["merges"][1] = Json::array({1, 2});
     },
     kCorrupt, "expected two tokens"},
    {"merge_empty_part", [](Json& j) { model(j)["merges"][0] = " b"; }, kCorrupt,
     "expected two tokens"},
    {"merge_unknown_part", [](Json& j) { model(j)["merges"][0] = "a bq"; }, kCorrupt,
     "'bq' is not in the vocabulary"},
    {"merge_unknown_result", [](Json& j) { model(j)["merges"][0] = "b a"; }, kCorrupt,
     "'b' and 'a' make a token that is not"},
    {"merge_twice", [](Json& j) { model(j)["merges"].push_back("a b"); }, kCorrupt,
     "merge 2 repeats merge 0"},
    {"pattern", [](Json& j) { split(j)["pattern"]["Regex"] = "[a"; }, kCorrupt,
     "split pattern '[a'"},
    {"pattern_string",
     [](Json& j) {
       split(j)["pattern"] = {{"String", " "}};
     },
     kCorrupt, "pattern.Regex: missing"},
    {"step_number", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0] = 1; }, kCorrupt,
     "found a number, expected an object"},
    {"flag_text", [](Json& j) { model(j)["ignore_merges"] = "yes"; }, kCorrupt,
     "model.ignore_merges: found a string, expected a boolean"},
    {"added_empty", [](Json& j) { j["added_tokens"][0]["content"] = ""; }, kCorrupt,
     "added_tokens[0].content: empty"},
    {"added_no_id", [](Json& j) { j["added_tokens"][0].erase("id"); }, kCorrupt,
     "added_tokens[0].id: missing"},
    {"added_huge_id", [](Json& j) { j["added_tokens"][0]["id"] = 1 << 20; }, kCorrupt,
     "added_tokens[0].id: id 1048576"},
    {"added_same_id", [](Json& j) { j["added_tokens"].push_back(added(260, "<b>")); }, kCorrupt,
     "id 260 occurs twice"},
    {"added_same_text", [](Json& j) { j["added_tokens"].push_back(added(261, "<end>")); }, kCorrupt,
     "'<end>' occurs twice"},
    {"added_base_id", [](Json& j) { j["added_tokens"][0]["id"] = 257; }, kCorrupt,
     "id 257 is 'abc' and the added token '<end>'"},
    {"added_base_text", [](Json& j) { j["added_tokens"][0]["content"] = "abc"; }, kCorrupt,
     "is in the vocabulary as id 257"},
};

std::string case_name(const testing::TestParamInfo<Refusal>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(OtherKinds, TokenizerFileRefusal, testing::ValuesIn(kOtherKinds),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Damaged, TokenizerFileRefusal, testing::ValuesIn(kDamaged), case_name);

void expect_corrupt(const std::string& json) {
  const auto t = Tokenizer::parse(json);
  ASSERT_FALSE(t.has_value()) << json.substr(0, 40);
  EXPECT_EQ(t.error().code, ErrorCode::kCorrupt) << t.error().message;
}

TEST(TokenizerFile, TruncatedNestedAndBrokenTextIsRefused) {
  const std::string whole = small_tokenizer().dump();
  for (std::size_t size = 0; size < whole.size(); size += 97) expect_corrupt(whole.substr(0, size));
  expect_corrupt(std::string(100'000, '['));
  expect_corrupt("{\"model\": " + std::string(70, '[') + std::string(70, ']') + "}");
  expect_corrupt("[]");
  expect_corrupt("null");
  std::string broken = whole;
  broken.replace(broken.find("<end>"), 5, "<\xFF\xFE\xFD>");
  expect_corrupt(broken);
}

TEST(TokenizerFile, AKeyThatOccursTwiceIsRefused) {
  std::string json = small_tokenizer().dump();
  json.insert(json.find("\"abc\":257"), "\"abc\":259,");
  const auto t = Tokenizer::parse(json);
  ASSERT_FALSE(t.has_value());
  EXPECT_EQ(t.error().message, "model.vocab: ids 257 and 259 are the same token");
}

TEST(TokenizerFile, MemoryThatRunsOutIsSaidAndNotTakenForABrokenFile) {
  const std::string text = small_tokenizer().dump();
  int n_failed = 0;
  for (bool failed = true; failed; n_failed += failed) {
    allocations_left = n_failed;
    const auto tokenizer = Tokenizer::parse(text, {});
    allocations_left = -1;
    failed = !tokenizer.has_value();
    if (!failed) break;
    ASSERT_EQ(tokenizer.error().code, ErrorCode::kNoMemory) << tokenizer.error().message;
    EXPECT_NE(tokenizer.error().message.find("tokenizer.json: no memory for"), std::string::npos);
  }
  EXPECT_GT(n_failed, 1);
}

}  // namespace
}  // namespace lily
