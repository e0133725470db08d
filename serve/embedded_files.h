// Files that are compiled in (cmake/embed_files.cmake writes their tables).
#pragma once

#include <span>
#include <string_view>

namespace vesper {

struct EmbeddedFile {
  std::string_view name;  // "index.html"
  std::string_view etag;  // SHA-256 of the bytes, in quotes
  std::span<const unsigned char> bytes;
};

std::span<const EmbeddedFile> embedded_page();  // the web page
std::span<const EmbeddedFile> embedded_api();   // openapi.json

}  // namespace vesper
