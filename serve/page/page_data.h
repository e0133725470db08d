// The files of the web page, compiled in (cmake/embed_files.cmake writes the table).
#pragma once

#include <span>
#include <string_view>

namespace vesper {

struct EmbeddedFile {
  std::string_view name;  // "index.html"
  std::string_view etag;  // SHA-256 of the bytes, in quotes
  std::span<const unsigned char> bytes;
};

std::span<const EmbeddedFile> embedded_page();

}  // namespace vesper
