// The headers of a server's responses to a download.
#include <algorithm>

#include "session/models/response_headers.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {

std::vector<std::string> seeds() {
  return {"HTTP/1.1 302 Found\r\nX-Linked-Etag: \"" + std::string(64, 'a') +
              "\"\r\n\r\nHTTP/1.1 206 Partial Content\r\nContent-Range: bytes 100-199/200\r\n\r\n",
          "HTTP/2 200\r\nContent-Range:bytes */200\r\n"};
}

void use(Bytes input) {
  ResponseHeaders headers;
  std::string_view rest = text_of(input);
  while (!rest.empty()) {
    const size_t n = std::min(rest.find('\n'), rest.size() - 1) + 1;
    // Exactly as long as the line, so that reading beyond it is reported.
    const std::vector<char> line(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(n));
    headers.add({line.data(), line.size()});
    rest.remove_prefix(n);
  }
  headers.range_begins_at(100);
  if (headers.linked_sha256()) {
    require(headers.linked_sha256()->size() == 64, "expected a SHA-256 digest");
  }
}

}  // namespace vesper::fuzz
