// Every way of merging against the definition, on small random vocabularies whose ranks are in any
// order.
#include "text/bpe.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/text/random_text.h"

namespace lily {
namespace {

struct Model {
  std::vector<std::string> tokens;  // By id; the first 256 are the bytes.
  std::array<TokenId, 256> byte_ids{};
  std::vector<Merge> merges;

  Vocab vocab() const { return Vocab::build({tokens.begin(), tokens.end()}).value(); }
};

const std::vector<std::string> kAlphabet = {"a",  "b",  " ",  "é", "è", "ê",
                                            "水", "氵", "火", "🔥", "💧"};

std::string text_of(std::mt19937& random, std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += kAlphabet[random() % kAlphabet.size()];
  return text;
}

// Joins random neighbours of random text, as training does, parts of characters included; then
// maybe shuffles the ranks.
Model random_model(std::mt19937& random, bool shuffled) {
  Model model;
  std::set<std::string> known;
  for (int byte = 0; byte < 256; ++byte) {
    model.tokens.emplace_back(1, static_cast<char>(byte));
    model.byte_ids[static_cast<std::size_t>(byte)] = byte;
    known.insert(model.tokens.back());
  }
  std::vector<TokenId> ids;
  for (const char c : text_of(random, 200)) ids.push_back(static_cast<unsigned char>(c));
  const std::size_t n_merges = 5 + random() % 60;
  while (model.merges.size() < n_merges && ids.size() > 2) {
    const std::size_t at = random() % (ids.size() - 1);
    const std::string both = model.tokens[static_cast<std::size_t>(ids[at])] +
                             model.tokens[static_cast<std::size_t>(ids[at + 1])];
    const auto id = static_cast<TokenId>(model.tokens.size());
    if (known.insert(both).second) {
      model.tokens.push_back(both);
      model.merges.push_back({ids[at], ids[at + 1], id});
      ids[at] = id;
    }
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  if (shuffled) std::shuffle(model.merges.begin(), model.merges.end(), random);
  return model;
}

std::vector<TokenId> by_definition(const Model& model, std::string_view text) {
  std::map<std::pair<TokenId, TokenId>, std::size_t> ranks;
  for (std::size_t i = 0; i < model.merges.size(); ++i)
    ranks[{model.merges[i].left, model.merges[i].right}] = i;
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  while (true) {
    std::size_t best = model.merges.size(), at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found == ranks.end() || found->second >= best) continue;
      best = found->second;
      at = i;
    }
    if (best == model.merges.size()) return ids;
    ids[at] = model.merges[best].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

RC_GTEST_PROP(Bpe, EveryWayFollowsTheDefinition, ()) {
  std::mt19937 random(*rc::gen::arbitrary<unsigned>());
  const Model model = random_model(random, *rc::gen::arbitrary<bool>());
  const std::string text = text_of(random, random() % 300);
  const std::vector<TokenId> expected = by_definition(model, text);
  Bpe::Scratch scratch;
  for (const bool fuse_chars : {false, true}) {
    const Bpe bpe = Bpe::build(model.vocab(), model.byte_ids, model.merges, fuse_chars).value();
    for (const Bpe::Way way : {Bpe::Way::kScan, Bpe::Way::kQueue}) {
      std::vector<TokenId> ids;
      bpe.encode(text, way, scratch, ids);
      RC_ASSERT(ids == expected);
    }
    std::vector<TokenId> ids;
    bpe.encode(text, scratch, ids);
    RC_ASSERT(ids == expected);
  }
}

TEST(Bpe, FusesACharacterOnlyWhereNoMergeTakesAPartOfIt) {
  // 0xE6 B0 B4 is a token through E6+B0; " "+E6 comes first after a space.
  Model model;
  for (int byte = 0; byte < 256; ++byte) {
    model.tokens.emplace_back(1, static_cast<char>(byte));
    model.byte_ids[static_cast<std::size_t>(byte)] = byte;
  }
  model.tokens.insert(model.tokens.end(), {" \xE6", "\xE6\xB0", "水"});
  model.merges = {{' ', 0xE6, 256}, {0xE6, 0xB0, 257}, {257, 0xB4, 258}};
  const Bpe bpe = Bpe::build(model.vocab(), model.byte_ids, model.merges).value();
  Bpe::Scratch scratch;
  std::vector<TokenId> ids;
  bpe.encode("水 水", scratch, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{258, 256, 0xB0, 0xB4}));
}

TEST(Bpe, DoesNotFuseACharacterThatALowerMergeWouldTakeTooEarly) {
  Model model;
  for (int byte = 0; byte < 256; ++byte) {
    model.tokens.emplace_back(1, static_cast<char>(byte));
    model.byte_ids[static_cast<std::size_t>(byte)] = byte;
  }
  model.tokens.insert(model.tokens.end(), {"水a", "ab", "\xE6\xB0", "水"});
  model.merges = {{259, 'a', 256}, {'a', 'b', 257}, {0xE6, 0xB0, 258}, {258, 0xB4, 259}};
  const Bpe bpe = Bpe::build(model.vocab(), model.byte_ids, model.merges).value();
  Bpe::Scratch scratch;
  std::vector<TokenId> ids;
  bpe.encode("水ab", scratch, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{259, 257}));
  EXPECT_EQ(ids, by_definition(model, "水ab"));
}

TEST(Bpe, RefusesAMergeThatOccursTwice) {
  Model model;
  for (int byte = 0; byte < 256; ++byte) {
    model.tokens.emplace_back(1, static_cast<char>(byte));
    model.byte_ids[static_cast<std::size_t>(byte)] = byte;
  }
  model.tokens.emplace_back("ab");
  model.merges = {{'a', 'b', 256}, {'a', 'b', 256}};
  const auto bpe = Bpe::build(model.vocab(), model.byte_ids, model.merges);
  ASSERT_FALSE(bpe.has_value());
  EXPECT_EQ(bpe.error().message, "merge 1 repeats merge 0");
}

TEST(MergeQueue, GivesLowestRankFirstThenLeftmostWhateverTheOrderOfPushes) {
  std::mt19937 random(7);
  for (const std::size_t n :
       {std::size_t{1}, std::size_t{50}, std::size_t{5000}, std::size_t{200'000}}) {
    MergeQueue queue;
    queue.start(n);
    std::multiset<std::uint64_t> expected;
    const auto push = [&] {
      const auto rank =
          static_cast<std::uint32_t>(random() % (std::uint64_t{1} << (1 + random() % 24)));
      const auto position = static_cast<std::uint32_t>(random());
      queue.push(rank, position);
      expected.insert(std::uint64_t{rank} << 32 | position);
    };
    for (std::size_t i = 0; i < n; ++i) push();
    for (std::uint64_t key = 0; queue.pop(key);) {
      ASSERT_EQ(key, *expected.begin());
      expected.erase(expected.begin());
      if (random() % 3 == 0 && expected.size() < 2 * n) push();
    }
    EXPECT_TRUE(expected.empty());
  }
}

}  // namespace
}  // namespace lily
