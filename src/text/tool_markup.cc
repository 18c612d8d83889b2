// Matching of literals, names and gaps.
#include "text/tool_markup.h"

namespace lily {

Match MarkupReader::literal(std::string_view wanted) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with(wanted)) {
    at += wanted.size();
    return Match::kYes;
  }
  return wanted.starts_with(rest) ? Match::kPartial : Match::kNo;
}

Match MarkupReader::name(std::string& out) {
  const std::string_view rest = text.substr(at, kMaxNameBytes + 1);
  const auto end = rest.find_first_of(">\n\r<");
  if (end == std::string_view::npos)
    return rest.size() > kMaxNameBytes ? Match::kNo : Match::kPartial;
  if (rest[end] != '>' || end == 0) return Match::kNo;
  out = rest.substr(0, end);
  at += end + 1;
  return Match::kYes;
}

void MarkupReader::gap() {
  const auto end = text.find_first_not_of(" \t\r\n", at);
  const std::size_t size = (end == std::string_view::npos ? text.size() : end) - at;
  if (size <= kMaxGapBytes) at += size;
}

CallOpening match_call_opening(std::string_view text) {
  CallOpening opening;
  MarkupReader reader{text};
  opening.match = reader.literal(kCallOpen);
  opening.wrapped = opening.match == Match::kYes;
  if (opening.wrapped) reader.gap();
  if (opening.match == Match::kPartial) return opening;
  opening.match = reader.literal(kFunctionOpen);
  if (opening.match != Match::kYes) return opening;
  opening.match = reader.name(opening.name);
  opening.size = reader.at;
  return opening;
}

}  // namespace lily
