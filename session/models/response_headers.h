// The headers of a server's responses to a download, of which the last response counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vesper {

class ResponseHeaders {
 public:
  // Adds one line: a status line, which begins another response, or "name: value".
  void add(std::string_view line);

  // Whether the last response says that its body begins at this byte of the file.
  bool range_begins_at(uint64_t offset) const;

  // The SHA-256 of the whole file in `x-linked-etag` of the first response that had one.
  const std::optional<std::string>& linked_sha256() const { return linked_sha256_; }

 private:
  std::string content_range_;
  std::optional<std::string> linked_sha256_;
};

}  // namespace vesper
