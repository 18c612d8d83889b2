// Elements as text, and the style sheet.
#include "measure/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lily {
namespace {

constexpr double kMark = 4.5;  // Half of a mark's width.

// Okabe and Ito's colours, darkened or lightened until they stand out from the ground.
constexpr std::string_view kStyle = R"(
text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:17px;font-weight:600}
.quiet,.axis{font-size:12px;fill:#59636e}
.ground{fill:#ffffff}
.grid{stroke:#d1d9e0;stroke-width:1}
.frame{stroke:#59636e;stroke-width:1}
.ceiling{stroke:#59636e;stroke-width:1.5;stroke-dasharray:12 3 2 3;fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.spread{stroke-width:1.5}
.c0{stroke:#0072b2}.c1{stroke:#c4500a}.c2{stroke:#00805f}.c3{stroke:#a03c78}.c4{stroke:#8a6a00}.c5{stroke:#3a3a3a}
.m0{fill:#0072b2}.m1{fill:#c4500a}.m2{fill:#00805f}.m3{fill:#a03c78}.m4{fill:#8a6a00}.m5{fill:#3a3a3a}
.d1{stroke-dasharray:8 4}.d2{stroke-dasharray:2 3}.d3{stroke-dasharray:10 3 4 3}.d4{stroke-dasharray:5 2}.d5{stroke-dasharray:12 5}
.helps{fill:#0072b2;stroke:#0072b2}
.costs{fill:url(#hatch);stroke:#c4500a}
.hatch{stroke:#c4500a;stroke-width:3}
.within{fill:none;stroke:#59636e}
.whisker{stroke:#1f2328;stroke-width:1.2}
.published{fill:#ffffff;stroke:#1f2328;stroke-width:1.5}
)";
constexpr std::string_view kDark = R"(@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}
.quiet,.axis{fill:#9198a1}
.ground{fill:#0d1117}
.grid{stroke:#2a313c}
.frame,.ceiling{stroke:#9198a1}
.c0{stroke:#56b4e9}.c1{stroke:#ff9350}.c2{stroke:#2fd3a5}.c3{stroke:#e69ac6}.c4{stroke:#f0d54a}.c5{stroke:#d0d0d0}
.m0{fill:#56b4e9}.m1{fill:#ff9350}.m2{fill:#2fd3a5}.m3{fill:#e69ac6}.m4{fill:#f0d54a}.m5{fill:#d0d0d0}
.helps{fill:#56b4e9;stroke:#56b4e9}
.costs,.hatch{stroke:#ff9350}
.within{stroke:#9198a1}
.whisker{stroke:#f0f6fc}
.published{fill:#0d1117;stroke:#f0f6fc}
}
)";

std::string escaped(std::string_view words) {
  std::string out;
  for (const char c : words) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

const char* anchor_name(SvgAnchor anchor) {
  switch (anchor) {
    case SvgAnchor::kStart:
      return "start";
    case SvgAnchor::kMiddle:
      return "middle";
    case SvgAnchor::kEnd:
      return "end";
  }
  return "";
}

std::string points_text(const std::vector<SvgPoint>& points) {
  std::string out;
  for (const auto& [x, y] : points)
    out += fmt::format("{}{:.1f},{:.1f}", out.empty() ? "" : " ", x, y);
  return out;
}

// Corners of a series' mark around 0; the first is a circle and has none.
std::vector<SvgPoint> mark_corners(std::size_t series) {
  constexpr double r = kMark, t = kMark / 3;
  switch (series) {
    case 1:
      return {{-r, -r}, {r, -r}, {r, r}, {-r, r}};
    case 2:
      return {{0, -r - 1}, {r + 1, r}, {-r - 1, r}};
    case 3:
      return {{0, -r - 1.5}, {r + 1.5, 0}, {0, r + 1.5}, {-r - 1.5, 0}};
    case 4:
      return {{0, r + 1}, {r + 1, -r}, {-r - 1, -r}};
    default:
      return {{-t, -r}, {t, -r}, {t, -t}, {r, -t}, {r, t},   {t, t},
              {t, r},   {-t, r}, {-t, t}, {-r, t}, {-r, -t}, {-t, -t}};
  }
}

}  // namespace

Svg::Svg(std::string title, std::string description)
    : title_(std::move(title)), description_(std::move(description)) {}

void Svg::text(const Text& how, std::string_view words) {
  body_ +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n",
                  how.at.x, how.at.y, anchor_name(how.anchor), how.look, escaped(words));
}

void Svg::line(SvgPoint from, SvgPoint to, std::string_view look) {
  body_ +=
      fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n",
                  from.x, from.y, to.x, to.y, look);
}

void Svg::path(const std::vector<SvgPoint>& points, std::string_view look) {
  body_ += fmt::format("<polyline points=\"{}\" class=\"{}\"/>\n", points_text(points), look);
}

void Svg::box(SvgPoint corner, SvgPoint opposite, std::string_view look) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\"/>\n",
      std::min(corner.x, opposite.x), std::min(corner.y, opposite.y),
      std::abs(opposite.x - corner.x), std::abs(opposite.y - corner.y), look);
}

void Svg::mark(std::size_t series, SvgPoint at, std::string_view words) {
  const std::string inside = words.empty() ? "" : fmt::format("<title>{}</title>", escaped(words));
  if (series == 0) {
    body_ +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"m0\">{}</circle>\n",
                    at.x, at.y, kMark, inside);
    return;
  }
  auto corners = mark_corners(series);
  for (auto& corner : corners) corner = {corner.x + at.x, corner.y + at.y};
  body_ += fmt::format("<polygon points=\"{}\" class=\"m{}\">{}</polygon>\n", points_text(corners),
                       series, inside);
}

void Svg::diamond(SvgPoint at, double radius, std::string_view look) {
  const auto [x, y] = at;
  body_ += fmt::format(
      "<polygon points=\"{}\" class=\"{}\"/>\n",
      points_text({{x, y - radius}, {x + radius, y}, {x, y + radius}, {x - radius, y}}), look);
}

std::string Svg::finish(double width, double height) const {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
             "width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" "
             "style=\"max-width:100%;height:auto\">\n<title>{2}</title>\n<desc>{3}</desc>\n",
             width, height, escaped(title_), escaped(description_)) +
         fmt::format("<style>{}{}</style>\n", kStyle, kDark) +
         "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
         "patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" "
         "class=\"hatch\"/></pattern></defs>\n" +
         fmt::format("<rect width=\"{:.0f}\" height=\"{:.0f}\" class=\"ground\"/>\n", width,
                     height) +
         body_ + "</svg>\n";
}

double text_width(std::string_view words, std::string_view look) {
  const double size = look == "title" ? 18 : look.empty() ? 13 : 12;
  const auto characters =
      std::count_if(words.begin(), words.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return 0.57 * size * static_cast<double>(characters);
}

std::vector<std::string> wrap_text(std::string_view words, double width, std::string_view look) {
  std::vector<std::string> lines;
  while (!words.empty()) {
    const auto end = std::min(words.find(' '), words.size());
    const std::string word(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
    if (!lines.empty() && text_width(lines.back() + " " + word, look) <= width)
      lines.back() += " " + word;
    else
      lines.push_back(word);
  }
  return lines;
}

std::string plain_number(double value) {
  const double size = std::abs(value);
  std::string digits = fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
  const auto point = std::min(digits.find('.'), digits.size());
  const std::size_t first = value < 0 ? 1 : 0;
  for (auto at = point; at > first + 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string short_length(int tokens) {
  return tokens >= 1024 && tokens % 1024 == 0 ? fmt::format("{}K", tokens / 1024)
                                              : std::to_string(tokens);
}

double nice_step(double most, int n) {
  const double rough = most / n, ten = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * ten >= rough * (1 - 1e-9)) return factor * ten;
  }
  return 10 * ten;
}

}  // namespace lily
