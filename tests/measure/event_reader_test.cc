// Events out of bytes: wherever the bytes are cut, the same events.
#include "measure/event_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lily {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kStream =
    ": a comment\n\nevent: x\ndata: one\n\ndata:two\ndata:  lines\r\nid: "
    "5\r\n\r\n\n\ndata:\n\ndata: [DONE]\n\ndata: cut off";

Result<std::vector<std::string>> events_of(std::string_view stream, std::size_t piece) {
  EventReader reader;
  std::vector<std::string> events;
  for (; !stream.empty(); stream.remove_prefix(std::min(piece, stream.size()))) {
    LILY_RETURN_IF_ERROR(
        reader.add(stream.substr(0, piece), [&](std::string_view data) -> Result<void> {
          events.emplace_back(data);
          return {};
        }));
  }
  return events;
}

TEST(EventReader, EveryCutGivesTheSameEvents) {
  for (std::size_t piece = 1; piece <= kStream.size(); ++piece) {
    const auto events = events_of(kStream, piece);
    ASSERT_TRUE(events.has_value());
    EXPECT_THAT(*events, ElementsAre("one", "two\n lines", "", "[DONE]")) << piece;
  }
}

TEST(EventReader, AnEventHasABoundHoweverItIsWritten) {
  const std::string long_line = "data: " + std::string(EventReader::kMaxEventBytes, 'x');
  EXPECT_THAT(events_of(long_line, 4096).error().message, HasSubstr("1048576 bytes"));
  std::string many_lines;
  for (std::size_t n = 0; n <= EventReader::kMaxEventBytes; n += 100)
    many_lines += "data: " + std::string(99, 'x') + "\n";
  EXPECT_EQ(events_of(many_lines, 4096).error().code, ErrorCode::kTooLarge);
}

TEST(EventReader, AnErrorOfTheTakerEndsTheReading) {
  EventReader reader;
  int n = 0;
  const auto added = reader.add("data: a\n\ndata: b\n\n", [&](std::string_view) -> Result<void> {
    ++n;
    return Error{ErrorCode::kCorrupt, "no"};
  });
  EXPECT_EQ(added.error().message, "no");
  EXPECT_EQ(n, 1);
}

}  // namespace
}  // namespace lily
