// Stop strings: found across any token borders, and nothing that could begin one is shown early.
#include "engine/stop_strings.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace lily {
namespace {

TEST(StopStrings, AStringSplitOverTokensIsFound) {
  StopStrings stops({"STOP"});
  EXPECT_EQ(stops.push("go S"), "go ");
  EXPECT_EQ(stops.push("TO"), "");
  EXPECT_EQ(stops.push("P and more"), "");
  EXPECT_EQ(stops.matched(), "STOP");
  EXPECT_EQ(stops.push("later"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, WhatOnlyLookedLikeOneIsShown) {
  StopStrings stops({"STOP"});
  EXPECT_EQ(stops.push("STO"), "");
  EXPECT_EQ(stops.push("RM"), "STORM");
  EXPECT_EQ(stops.push("ST"), "");
  EXPECT_EQ(stops.finish(), "ST");
  EXPECT_FALSE(stops.matched());
}

TEST(StopStrings, TheOneThatCompletesFirstWins) {
  StopStrings stops({"abcd", "bc"});
  EXPECT_EQ(stops.push("xabcd"), "xa");
  EXPECT_EQ(stops.matched(), "bc");
}

TEST(StopStrings, OfTwoThatEndTogetherTheLongerWins) {
  StopStrings stops({"b", "ab"});
  EXPECT_EQ(stops.push("xab"), "x");
  EXPECT_EQ(stops.matched(), "ab");
}

TEST(StopStrings, EmptyStringsAndNoStringsStopNothing) {
  StopStrings stops({""});
  EXPECT_EQ(stops.push("all of it"), "all of it");
  EXPECT_FALSE(stops.matched());
}

// The law: shown text does not depend on how the answer is cut into tokens.
RC_GTEST_PROP(StopStringsProperty, AnyCutShowsTheSame, ()) {
  const auto letters = rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab\n")));
  const auto text = *letters;
  const auto stops = *rc::gen::container<std::vector<std::string>>(letters);
  const auto run = [&](const std::vector<std::string>& pieces) {
    StopStrings matcher(stops);
    std::string shown;
    for (const auto& piece : pieces) shown += matcher.push(piece);
    return std::pair(shown + matcher.finish(), matcher.matched());
  };
  std::vector<std::string> single, pieces;
  for (const char c : text) single.emplace_back(1, c);
  for (std::size_t at = 0; at < text.size();) {
    const auto n = *rc::gen::inRange<std::size_t>(1, 5);
    pieces.push_back(text.substr(at, n));
    at += n;
  }
  RC_ASSERT(run(single) == run(pieces));
}

}  // namespace
}  // namespace lily
