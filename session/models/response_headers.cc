#include "session/models/response_headers.h"

#include <cctype>
#include <charconv>

namespace vesper {
namespace {

// The value of a header line if it has this name (lower case), without quotes around it.
std::optional<std::string> header_value(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return std::nullopt;
  for (size_t i = 0; i < name.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(line[i])) != name[i]) return std::nullopt;
  }
  line.remove_prefix(name.size() + 1);
  constexpr std::string_view kAround = " \t\r\n\"";
  const size_t first = line.find_first_not_of(kAround);
  if (first == std::string_view::npos) return "";
  return std::string(line.substr(first, line.find_last_not_of(kAround) - first + 1));
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

void ResponseHeaders::add(std::string_view line) {
  if (line.starts_with("HTTP/")) content_range_.clear();
  if (const auto range = header_value(line, "content-range")) content_range_ = *range;
  if (const auto etag = header_value(line, "x-linked-etag");
      etag && is_sha256(*etag) && !linked_sha256_) {
    linked_sha256_ = *etag;
  }
}

// "bytes 100-199/200" begins at 100.
bool ResponseHeaders::range_begins_at(uint64_t offset) const {
  constexpr std::string_view kUnit = "bytes ";
  if (!content_range_.starts_with(kUnit)) return false;
  const char* const end = content_range_.data() + content_range_.size();
  uint64_t first = 0;
  const auto [after, error] = std::from_chars(content_range_.data() + kUnit.size(), end, first);
  return error == std::errc() && after != end && *after == '-' && first == offset;
}

}  // namespace vesper
