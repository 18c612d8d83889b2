// States on disk: they outlive the process, damage to them is noticed, and what the disk refuses fails no request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tests/engine/served.h"

namespace lily {
namespace {

class StateFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = Path(::testing::TempDir()) / ("lily_states." + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  SchedulerOptions how() const { return {.state_dir = folder_}; }
  // The answer of a new process, as it were.
  GenerateResult answer(const std::string& question) const {
    Served served(1, how());
    auto result = served.answer(request_of(ask(*served.engine, question), 12));
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return *result;
  }
  std::vector<Path> files(const std::string& suffix) const {
    std::vector<Path> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.path().extension() == suffix) out.push_back(entry.path());
    }
    return out;
  }

  Path folder_;
};

std::string story(int n_sentences) {
  std::string text = "Remember this: the secret word of Zoe is leaf-254. ";
  for (int i = 0; i < n_sentences; ++i) text += "The fox went to the river and saw a bear near the old bridge. ";
  return text + "What is the secret word of Zoe?";
}

void spoil(const Path& file, std::streamoff from_end) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(-from_end, std::ios::end);
  const char byte = static_cast<char>(stream.get() ^ 0x40);
  stream.seekp(-from_end, std::ios::end);
  stream.put(byte);
}

TEST_F(StateFolder, AStateOutlivesItsProcess) {
  const auto first = answer("What is the capital of France?");
  EXPECT_FALSE(files(".state").empty());
  EXPECT_TRUE(files(".part").empty());
  const auto second = answer("What is the capital of France?");
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_GE(second.cached_tokens, second.prompt_tokens - 8);
}

// Long enough for rows in files that several states share.
TEST_F(StateFolder, SoDoesALongOneWhoseRowsAreShared) {
  const auto first = answer(story(90));
  ASSERT_GT(first.prompt_tokens, 1100);
  EXPECT_EQ(files(".run").size(), 1u);
  EXPECT_GE(files(".state").size(), 2u);
  const auto second = answer(story(90));
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_GE(second.cached_tokens, second.prompt_tokens - 8);
  EXPECT_EQ(files(".run").size(), 1u);
}

TEST_F(StateFolder, DamageIsNoticedAndSkipped) {
  const auto first = answer(story(90));
  for (const char* kind : {".run", ".state"}) {
    for (const std::streamoff from_end : {std::streamoff{5}, std::streamoff{250'000}}) {
      for (const Path& file : files(kind)) spoil(file, from_end);
      const auto second = answer(story(90));
      EXPECT_EQ(second.tokens, first.tokens) << kind;
      EXPECT_EQ(second.cached_tokens, 0) << kind;
    }
  }
}

TEST_F(StateFolder, FilesThatAreCutOrStrangeAreSkipped) {
  const auto first = answer("What is 17 + 25?");
  const auto states = files(".state");
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto bytes = std::filesystem::file_size(states[i]);
    const std::uintmax_t sizes[] = {0, 71, 80, bytes - 1, bytes / 2};
    std::filesystem::resize_file(states[i], sizes[i % 5]);
  }
  std::ofstream(states[0].parent_path() / "notes.state") << "not a state at all, but long enough to have a head of seventy-two bytes";
  std::ofstream(states[0].parent_path() / "half.state.part") << "the power went";
  const auto second = answer("What is 17 + 25?");
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.cached_tokens, 0);
  EXPECT_TRUE(files(".part").empty());
}

TEST_F(StateFolder, StatesOfOtherArithmeticAreNotTaken) {
  answer("What is 17 + 25?");
  auto options = served_options(1);
  options.backend_options.activations = Activations::kF32;
  Served exact(options, how());
  EXPECT_EQ(exact.answer(request_of(ask(*exact.engine, "What is 17 + 25?")))->cached_tokens, 0);
}

TEST_F(StateFolder, AFolderThatCannotBeMadeIsNoFailure) {
  std::ofstream(folder_) << "a file where the folder should be";
  EXPECT_EQ(answer("What is 17 + 25?").text, "17 + 25 = 42");
}

// A limit on the size of files refuses writes as a full disk does.
TEST_F(StateFolder, AFullDiskFailsNoRequestAndLeavesNoHalfFile) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto first = answer("What is 17 + 25?");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old);
  EXPECT_EQ(first.text, "17 + 25 = 42");
  EXPECT_TRUE(files(".state").empty());
  EXPECT_TRUE(files(".part").empty());
  answer("What is 17 + 25?");
  EXPECT_GT(answer("What is 17 + 25?").cached_tokens, 0);
}

// Killed while states are written: what was there before is still there, what is there is whole.
TEST_F(StateFolder, KillingTheProcessLosesNothingThatWasThere) {
  const auto first = answer("What is the capital of France?");
  for (int milliseconds = 300; milliseconds < 1500; milliseconds += 400) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 0;; ++i) answer("What is " + std::to_string(i % 50) + " + 7?");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const auto again = answer("What is the capital of France?");
    EXPECT_EQ(again.tokens, first.tokens);
    EXPECT_GE(again.cached_tokens, again.prompt_tokens - 8);
  }
}

// What memory has no room for is still on disk.
TEST_F(StateFolder, WhatMadeRoomInMemoryComesBackFromDisk) {
  Served served(served_options(1, std::size_t{10} << 20), how());
  const auto first = ask(*served.engine, "What is the capital of France?");
  const auto expected = served.answer(request_of(first))->tokens;
  for (const char* other : {"Count from 10 to 25.", "What colour is snow?", "Capital of Kenya?"}) {
    ASSERT_TRUE(served.answer(request_of(ask(*served.engine, other))).has_value());
  }
  EXPECT_GT(served.scheduler->stats().evictions, 0u);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // Written meanwhile.
  const auto again = *served.answer(request_of(first));
  EXPECT_EQ(again.tokens, expected);
  EXPECT_GE(again.cached_tokens, again.prompt_tokens - 8);
  EXPECT_LE(served.scheduler->stats().checkpoint_bytes, std::size_t{10} << 20);
}

TEST_F(StateFolder, TheFolderIsBounded) {
  Served served(served_options(1, std::size_t{8} << 20), how());
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(served.answer(request_of(ask(*served.engine, "What is " + std::to_string(i) + " + 7?"), 4)).has_value());
    EXPECT_LE(served.scheduler->stats().disk_bytes, std::size_t{32} << 20);
  }
  served.scheduler.reset();
  std::uintmax_t bytes = 0;
  for (const Path& file : files(".state")) bytes += std::filesystem::file_size(file);
  EXPECT_LE(bytes, std::size_t{32} << 20);
  EXPECT_GT(bytes, std::size_t{16} << 20);
}

}  // namespace
}  // namespace lily
