// Token ids and texts recorded from the `tokenizers` library, for the pocket vocabulary and the
// genuine one.
#include "tests/text/tokenizer_fixture.h"

#include "text/stream_decoder.h"

namespace lily {
namespace {

using Ids = std::vector<TokenId>;

TEST(TokenizerGolden, PocketEncodesAsRecorded) {
  const auto golden = read_golden("tokens.json");
  ASSERT_GE(golden["encode"].size(), 300u);
  for (const auto& c : golden["encode"]) {
    EXPECT_EQ(pocket_tokenizer().encode(c["text"].get<std::string>()), c["ids"].get<Ids>())
        << c["text"];
  }
}

TEST(TokenizerGolden, PocketEncodesPlainTextAsRecordedWithoutAddedTokens) {
  const auto golden = read_golden("tokens.json");
  ASSERT_GE(golden["plain"].size(), 30u);
  for (const auto& c : golden["plain"]) {
    EXPECT_EQ(pocket_tokenizer().encode_plain(c["text"].get<std::string>()), c["ids"].get<Ids>())
        << c["text"];
  }
}

TEST(TokenizerGolden, PocketDecodesAsRecordedWholeAndStreamed) {
  const auto golden = read_golden("tokens.json");
  ASSERT_GE(golden["decode"].size(), 200u);
  for (const auto& c : golden["decode"]) {
    const Ids ids = c["ids"].get<Ids>();
    for (const bool skip_special : {false, true}) {
      const std::string expected = c[skip_special ? "visible" : "text"];
      EXPECT_EQ(pocket_tokenizer().decode(ids, {.skip_special = skip_special}), expected)
          << c["ids"];
      StreamDecoder stream(pocket_tokenizer(), {.skip_special = skip_special});
      std::string streamed;
      for (const TokenId id : ids) streamed += stream.push(id);
      EXPECT_EQ(streamed + stream.finish(), expected) << c["ids"];
    }
  }
}

TEST(TokenizerGolden, GenuineVocabularyEncodesAsRecorded) {
  LILY_SKIP_WITHOUT_REAL_TOKENIZER();
  const auto golden = read_golden("real_tokens.json");
  ASSERT_GE(golden["cases"].size(), 450u);
  for (const auto& c : golden["cases"]) {
    EXPECT_EQ(real_tokenizer().encode(c["text"].get<std::string>()), c["ids"].get<Ids>())
        << c["group"] << c["text"];
  }
}

TEST(TokenizerGolden, GenuineVocabularyKnowsItsControlTokens) {
  LILY_SKIP_WITHOUT_REAL_TOKENIZER();
  const Tokenizer& t = real_tokenizer();
  EXPECT_EQ(t.vocab_size(), 248077);
  EXPECT_EQ(t.n_ids(), 248077);
  EXPECT_EQ(t.id_of("<|im_end|>"), 248046);
  EXPECT_TRUE(t.is_special(248046));
  EXPECT_EQ(t.id_of("<think>"), 248068);
  EXPECT_TRUE(t.is_added(248068));
  EXPECT_FALSE(t.is_special(248068));
  EXPECT_EQ(t.id_of("<|audio_pad|>"), 248076);
  EXPECT_EQ(t.id_of("<tools>"), std::nullopt);
  EXPECT_FALSE(t.is_added(248043));
  EXPECT_EQ(t.token_bytes(248077), "");
}

TEST(TokenizerGolden, GenuineTokensThatNoMergeMakesStillDecode) {
  LILY_SKIP_WITHOUT_REAL_TOKENIZER();
  const Tokenizer& t = real_tokenizer();
  for (const TokenId id : {108918, 104328, 182449}) {
    const std::string text(t.token_bytes(id));
    EXPECT_FALSE(text.empty());
    const Ids ids = t.encode(text);
    EXPECT_GT(ids.size(), 1u) << text;
    EXPECT_EQ(t.encode(text), ids) << "asked again";
    EXPECT_EQ(t.decode(ids), text);
  }
}

}  // namespace
}  // namespace lily
