#include "serve/page/page_files.h"

#include <algorithm>
#include <array>
#include <utility>

#include "serve/embedded_files.h"

namespace vesper {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kContentTypes = {{
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".svg", "image/svg+xml"},
}};

std::string_view content_type_of(std::string_view name) {
  for (const auto& [extension, type] : kContentTypes) {
    if (name.ends_with(extension)) return type;
  }
  return "application/octet-stream";
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

std::optional<PageFile> page_file(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  const std::string_view name = path == "/" ? "index.html" : path.substr(1);
  for (const EmbeddedFile& file : embedded_page()) {
    if (file.name != name) continue;
    return PageFile{.content_type = content_type_of(name),
                    .etag = file.etag,
                    .bytes = {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}};
  }
  return std::nullopt;
}

bool has_etag(std::string_view if_none_match, std::string_view etag) {
  while (!if_none_match.empty()) {
    const size_t comma = std::min(if_none_match.find(','), if_none_match.size());
    std::string_view tag = trimmed(if_none_match.substr(0, comma));
    if (tag.starts_with("W/")) tag.remove_prefix(2);  // a weak comparison
    if (tag == "*" || tag == etag) return true;
    if_none_match.remove_prefix(std::min(comma + 1, if_none_match.size()));
  }
  return false;
}

}  // namespace vesper
