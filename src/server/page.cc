// Names, types, and the headers that keep the page to itself.
#include "server/page.h"

#include <algorithm>
#include <array>

#include "server/embedded.h"

namespace lily::server {
namespace {

struct PageRow {
  std::string_view path, name, type;
};
constexpr std::array kPages{
    PageRow{"/", "index.html", "text/html; charset=utf-8"},
    PageRow{"/page.css", "page.css", "text/css; charset=utf-8"},
    PageRow{"/page.js", "page.js", "text/javascript; charset=utf-8"},
    PageRow{"/openapi.json", "openapi.json", "application/json"},
};

// The page loads nothing from elsewhere and is shown in nobody else's frame.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace

Result<HttpReply> page_file(std::string_view path) {
  const auto row = std::find_if(kPages.begin(), kPages.end(),
                                [&](const PageRow& one) { return one.path == path; });
  if (row == kPages.end()) return Error{ErrorCode::kNotFound, "page: there is no such file"};
  const auto& files = embedded_files();
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const EmbeddedFile& one) { return one.name == row->name; });
  return HttpReply{.body = std::string(file->bytes),
                   .content_type = std::string(row->type),
                   .headers = {{"Content-Security-Policy", kPolicy},
                               {"X-Content-Type-Options", "nosniff"},
                               {"Referrer-Policy", "no-referrer"},
                               {"Cache-Control", "no-cache"}}};
}

}  // namespace lily::server
