// Lines, then the fields that decide where the body ends.
#include "server/http_head.h"

#include <algorithm>
#include <charconv>

namespace lily::server {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";

using Fault = std::optional<HttpFault>;

HttpFault bad(std::string message) {
  return {400, std::move(message)};
}

// What RFC 9110 calls a token: methods and field names.
bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// False: a percent sign without two digits, or a zero byte.
bool decode_path(std::string_view text, std::string& out) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0 || high + low == 0) return false;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

Fault read_target(std::string_view target, HttpHead& out) {
  if (target.size() > kMaxTargetBytes) {
    return HttpFault{414, "target of " + std::to_string(target.size()) + " bytes, at most " +
                              std::to_string(kMaxTargetBytes)};
  }
  const bool printable =
      std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!printable || !target.starts_with('/'))
    return bad("target: expected a path that begins with /");
  const auto question = target.find('?');
  if (question != std::string_view::npos) out.query = target.substr(question + 1);
  if (!decode_path(target.substr(0, question), out.path)) {
    return bad("target: a percent sign that two digits do not follow");
  }
  return {};
}

Fault read_request_line(std::string_view line, HttpHead& out) {
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return bad("request line: expected METHOD TARGET HTTP/1.1");
  }
  out.method = line.substr(0, first);
  if (!is_token(out.method)) return bad("request line: the method is no word");
  const auto version = line.substr(last + 1);
  if (!version.starts_with("HTTP/")) return bad("request line: no HTTP version at its end");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return HttpFault{505, "only HTTP/1.1 and HTTP/1.0 are spoken here"};
  }
  out.keep_alive = version == "HTTP/1.1";
  return read_target(line.substr(first + 1, last - first - 1), out);
}

Fault read_header(std::string_view line, HttpHead& out) {
  if (out.headers.size() == kMaxHeaders) {
    return HttpFault{431, "over " + std::to_string(kMaxHeaders) + " header fields"};
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return bad("header field: expected NAME: VALUE");
  }
  const auto value = trimmed(line.substr(colon + 1));
  const bool clean = std::none_of(value.begin(), value.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
  if (!clean) return bad("header field: a control character in its value");
  out.headers.emplace_back(lower(line.substr(0, colon)), value);
  return {};
}

Fault read_length(std::string_view value, HttpHead& out) {
  std::uint64_t length = 0;
  const char* const end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, length);
  if (value.empty() || error != std::errc() || rest != end) {
    return bad("Content-Length: expected a number of bytes");
  }
  if (out.body == HttpHead::Body::kLength && out.content_length != length) {
    return bad("Content-Length: given twice, with two values");
  }
  out.body = HttpHead::Body::kLength;
  out.content_length = length;
  return {};
}

Fault read_coding(std::string_view value, HttpHead& out) {
  if (lower(value) != "chunked") {
    return HttpFault{501, "Transfer-Encoding: only chunked is understood"};
  }
  if (out.body != HttpHead::Body::kNone) return bad("two ways of saying where the body ends");
  out.body = HttpHead::Body::kChunked;
  return {};
}

void read_connection(std::string_view value, HttpHead& out) {
  const std::string words = lower(value);
  if (words.find("close") != std::string::npos) out.keep_alive = false;
  if (words.find("keep-alive") != std::string::npos) out.keep_alive = true;
}

// The fields that this layer acts on.
Fault apply_header(std::string_view name, std::string_view value, HttpHead& out) {
  if (name == "transfer-encoding") return read_coding(value, out);
  if (name == "content-length") {
    if (out.body == HttpHead::Body::kChunked) return bad("two ways of saying where the body ends");
    return read_length(value, out);
  }
  if (name == "content-encoding" && !value.empty() && lower(value) != "identity") {
    return HttpFault{415, "Content-Encoding: bodies are taken as they are, not compressed"};
  }
  if (name == "expect" && lower(value) == "100-continue") out.expects_continue = true;
  if (name == "connection") read_connection(value, out);
  return {};
}

}  // namespace

const std::string* HttpHead::find(std::string_view name) const {
  const auto at = std::find_if(headers.begin(), headers.end(),
                               [&](const auto& header) { return header.first == name; });
  return at == headers.end() ? nullptr : &at->second;
}

std::size_t head_size(std::string_view text) {
  const auto end = text.find(kHeadEnd);
  return end == std::string_view::npos ? 0 : end + kHeadEnd.size();
}

std::optional<HttpFault> parse_http_head(std::string_view text, HttpHead& out) {
  bool first = true;
  while (!text.empty()) {
    const auto end = text.find(kLineEnd);
    if (end == std::string_view::npos) return bad("a line without its end");
    const auto line = text.substr(0, end);
    text.remove_prefix(end + kLineEnd.size());
    if (line.find('\n') != std::string_view::npos || line.find('\r') != std::string_view::npos) {
      return bad("a line that does not end with CR LF");
    }
    if (line.empty() && !first) break;
    if (auto fault = first ? read_request_line(line, out) : read_header(line, out)) return fault;
    first = false;
  }
  if (first) return bad("an empty head");
  for (const auto& [name, value] : out.headers) {
    if (auto fault = apply_header(name, value, out)) return fault;
  }
  return {};
}

}  // namespace lily::server
