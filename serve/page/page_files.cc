#include "serve/page/page_files.h"

#include <array>
#include <utility>

#include "serve/embedded_files.h"
#include "serve/http/header_list.h"

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
  for (std::string_view tag : list_items(if_none_match)) {
    if (tag.starts_with("W/")) tag.remove_prefix(2);  // a weak comparison
    if (tag == "*" || tag == etag) return true;
  }
  return false;
}

}  // namespace vesper
