// Starting, packing, resuming and sharing: what is found on disk decides what is done.
#include "weights/load.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "base/log.h"
#include "tests/weights/support.h"

namespace lily::test {
namespace {

namespace fs = std::filesystem;
using Phase = PackProgress::Phase;

// A vocabulary large enough for an image of two blocks.
TinyCheckpoint two_blocks() {
  TinyCheckpoint tiny;
  const std::int64_t rows = 262144;
  tiny.config["text_config"]["vocab_size"] = rows;
  for (const std::string module : {"language_model.model.embed_tokens", "language_model.lm_head"}) {
    for (const std::string suffix : {".weight", ".scales", ".biases"}) {
      auto& tensor = tiny.tensor(module + suffix);
      std::string longer;
      while (longer.size() < tensor.bytes.size() / 32 * rows) longer += tensor.bytes;
      tensor.shape[0] = rows;
      tensor.bytes = longer;
    }
  }
  return tiny;
}

// Runs `body` in a process of its own, whose exit status is what it returns.
pid_t start_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}
// The exit status, or minus the signal that ended it.
int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
int in_child(const std::function<int()>& body) {
  return status_of(start_child(body));
}

struct Seen {
  std::vector<PackProgress> events;
  bool any(Phase phase) const {
    for (const auto& e : events) {
      if (e.phase == phase) return true;
    }
    return false;
  }
};

LoadOptions watched(Seen& seen) {
  LoadOptions options;
  options.progress = [&seen](const PackProgress& p) { seen.events.push_back(p); };
  return options;
}

class Loading : public testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kError); }
  Path image() const { return folder() / ".lily/interleaved16.lilyimage"; }
  Path part() const { return image().string() + ".part"; }
  Path folder() const { return temp_.path() / "model"; }

  // Leaves the .part file of a packing that was interrupted after its first block.
  void interrupt_after_first_block() {
    ASSERT_TRUE(load_weights(folder(), {}).has_value());
    const auto whole = read_text(image());
    auto header = WeightImage::map(image())->header();
    ASSERT_EQ(header.block_sums.size(), 2u);
    header.blocks_done = 1;
    const auto bytes = image_header_bytes(header);
    std::string partial(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    partial += whole.substr(header.data_start, kImageBlock + 1000);
    fs::remove(image());
    write_text(part(), partial);
    whole_ = whole;
  }

  TempFolder temp_;
  std::string whole_;
};

TEST_F(Loading, TheSecondStartMapsWhatTheFirstPacked) {
  TinyCheckpoint().write(folder());
  Seen seen;
  const auto first = load_weights(folder(), watched(seen));
  ASSERT_TRUE(first.has_value()) << first.error().message;
  EXPECT_TRUE(first->packed);
  EXPECT_TRUE(seen.any(Phase::kPacking));
  EXPECT_EQ(first->image_path, image());
  EXPECT_EQ(read_text(folder() / ".lily/.gitignore"), "*\n");
  EXPECT_FALSE(fs::exists(part()));
  Seen again;
  const auto second = load_weights(folder(), watched(again));
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(second->packed);
  EXPECT_TRUE(again.events.empty());
}

TEST_F(Loading, NoPackWritesNothing) {
  TinyCheckpoint().write(folder());
  const auto loaded = load_weights(folder(), {.pack = false});
  ASSERT_TRUE(loaded.has_value());
  EXPECT_FALSE(fs::exists(folder() / ".lily"));
}

TEST_F(Loading, AChangedSourceIsPackedAgain) {
  TinyCheckpoint(1).write(folder());
  ASSERT_TRUE(load_weights(folder(), {}).has_value());
  TinyCheckpoint(2).write(folder());
  fs::last_write_time(folder() / "model-00001-of-00002.safetensors", fs::file_time_type::clock::now() + std::chrono::hours(1));
  const auto loaded = load_weights(folder(), {});
  ASSERT_TRUE(loaded.has_value());
  EXPECT_TRUE(loaded->packed);
}

TEST_F(Loading, OtherBitsArePackedAgainOtherRopeIsNot) {
  TinyCheckpoint tiny;
  tiny.write(folder());
  ASSERT_TRUE(load_weights(folder(), {}).has_value());
  tiny.config["text_config"]["rope_parameters"] = {
      {"type", "yarn"}, {"rope_theta", 1e7}, {"factor", 2.0}, {"original_max_position_embeddings", 512}};
  write_text(folder() / "config.json", tiny.config.dump());
  const auto loaded = load_weights(folder(), {});
  ASSERT_TRUE(loaded.has_value());
  EXPECT_FALSE(loaded->packed);
  EXPECT_EQ(loaded->config.spec.rope.factor, 2.0);
}

TEST_F(Loading, DamagedImagesArePackedAgain) {
  TinyCheckpoint().write(folder());
  ASSERT_TRUE(load_weights(folder(), {}).has_value());
  const auto good = read_text(image());
  auto flipped = good, old = good;
  flipped[200] ^= 4;
  old[8] = 9;
  for (const auto& bad : {flipped, old, good.substr(0, good.size() - 1), good + "x", std::string("LILY"), std::string()}) {
    write_text(image(), bad);
    const auto loaded = load_weights(folder(), {});
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    EXPECT_TRUE(loaded->packed);
    EXPECT_TRUE(read_text(image()) == good);
  }
}

TEST_F(Loading, ADamagedImageIsNamedOnce) {
  TinyCheckpoint().write(folder());
  ASSERT_TRUE(load_weights(folder(), {}).has_value());
  write_text(image(), "LILY");
  set_log_level(LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  const auto loaded = load_weights(folder(), {});
  const std::string said = ::testing::internal::GetCapturedStderr();
  set_log_level(LogLevel::kError);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  const auto first = said.find("packing again");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("packing again", first + 1), std::string::npos) << said;
}

TEST_F(Loading, ContinuesAfterTheLastRecordedBlock) {
  two_blocks().write(folder());
  interrupt_after_first_block();
  Seen seen;
  const auto loaded = load_weights(folder(), watched(seen));
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_TRUE(seen.any(Phase::kChecking));
  EXPECT_EQ(std::count_if(seen.events.begin(), seen.events.end(), [](auto& e) { return e.phase == Phase::kPacking; }), 1);
  EXPECT_TRUE(read_text(image()) == whole_);
}

TEST_F(Loading, PacksADamagedBlockOfAnInterruptedFileAgain) {
  two_blocks().write(folder());
  interrupt_after_first_block();
  auto partial = read_text(part());
  partial[partial.size() - 5000] ^= 1;
  write_text(part(), partial);
  Seen seen;
  ASSERT_TRUE(load_weights(folder(), watched(seen)).has_value());
  EXPECT_EQ(std::count_if(seen.events.begin(), seen.events.end(), [](auto& e) { return e.phase == Phase::kPacking; }), 2);
  EXPECT_TRUE(read_text(image()) == whole_);
}

TEST_F(Loading, AnInterruptedFileOfAnotherSourceIsNotContinued) {
  two_blocks().write(folder());
  interrupt_after_first_block();
  const auto shard = folder() / "model-00001-of-00002.safetensors";
  fs::last_write_time(shard, fs::last_write_time(shard) + std::chrono::hours(1));
  Seen seen;
  ASSERT_TRUE(load_weights(folder(), watched(seen)).has_value());
  EXPECT_FALSE(seen.any(Phase::kChecking));
  EXPECT_TRUE(WeightImage::map(image()).has_value());
}

TEST_F(Loading, AKilledPackerLeavesAFileThatTheNextStartReplaces) {
  two_blocks().write(folder());
  const int status = in_child([&] {
    LoadOptions options;
    options.progress = [](const PackProgress&) { ::kill(::getpid(), SIGKILL); };
    return load_weights(folder(), options).has_value() ? 0 : 1;
  });
  EXPECT_EQ(status, -SIGKILL);
  EXPECT_TRUE(fs::exists(part()));
  EXPECT_FALSE(fs::exists(image()));
  ASSERT_TRUE(load_weights(folder(), {}).has_value());
  EXPECT_TRUE(verify_image(folder(), {})->good());
}

TEST_F(Loading, ProcessesThatPackAtOnceShareOneImage) {
  two_blocks().write(folder());
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(start_child([&] { return load_weights(folder(), {}).has_value() ? 0 : 1; }));
  }
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
  EXPECT_TRUE(verify_image(folder(), {})->good());
}

TEST_F(Loading, AFullDiskIsSaidAndLeavesNoFile) {
  two_blocks().write(folder());
  const int status = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto loaded = load_weights(folder(), {});
    const bool said = !loaded.has_value() && loaded.error().code == ErrorCode::kNoSpace &&
                      loaded.error().message.find("interleaved16.lilyimage.part") != std::string::npos;
    return said ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(fs::exists(part()));
  EXPECT_FALSE(fs::exists(image()));
}

// A child without the rights of root, whom no mode stops.
int as_nobody(const std::function<int()>& body) {
  return in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return 99;
    return body();
  });
}

TEST_F(Loading, AFolderThatCannotBeWrittenIsServedFromTheCache) {
  TinyCheckpoint().write(folder());
  const auto cache = temp_.path() / "cache";
  fs::create_directories(cache);
  fs::permissions(cache, fs::perms::all);
  fs::permissions(folder(), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  const int status = as_nobody([&] {
    const auto first = load_weights(folder(), {.cache_folder = cache});
    const auto second = load_weights(folder(), {.cache_folder = cache});
    if (!first.has_value() || !second.has_value()) return 1;
    return first->packed && !second->packed && first->image_path.string().rfind(cache.string(), 0) == 0 ? 0 : 2;
  });
  fs::permissions(folder(), fs::perms::owner_all);
  EXPECT_EQ(status, 0);
}

TEST_F(Loading, WithNowhereToWriteItSaysSoAndNamesTheWayOut) {
  TinyCheckpoint().write(folder());
  const int status = as_nobody([&] {
    const auto loaded = load_weights(folder(), {.cache_folder = "/proc/no/cache"});
    return !loaded.has_value() && loaded.error().message.find("--no-pack") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Loading, AFileThatMayNotBeReadIsNamed) {
  TinyCheckpoint().write(folder());
  const auto shard = folder() / "model-00002-of-00002.safetensors";
  fs::permissions(shard, fs::perms::none);
  const int status = as_nobody([&] {
    const auto loaded = load_weights(folder(), {.pack = false});
    return !loaded.has_value() && loaded.error().code == ErrorCode::kPermission &&
                   loaded.error().message.find(shard.string()) != std::string::npos
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Loading, VerifyNamesDamagedTensors) {
  two_blocks().write(folder());
  const auto none = verify_image(folder(), {.cache_folder = temp_.path() / "cache"});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(load_weights(folder(), {}).has_value());
  EXPECT_TRUE(verify_image(folder(), {})->good());
  auto bytes = read_text(image());
  bytes[bytes.size() - kImageAlign - 100] ^= 1;  // Near the end of lm_head, which is last.
  write_text(image(), bytes);
  ASSERT_TRUE(load_weights(folder(), {}).has_value());  // A start does not read the data.
  const auto report = verify_image(folder(), {});
  ASSERT_TRUE(report.has_value());
  EXPECT_FALSE(report->good());
  EXPECT_EQ(report->bad_blocks, std::vector<std::uint64_t>{1});
  EXPECT_EQ(report->bad_tensors.back(), "lm_head");
}

}  // namespace
}  // namespace lily::test
