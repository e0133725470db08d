#include "serve/http/multipart.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <utility>

#include "serve/http/http_exchange.h"

namespace vesper {
namespace {

using boost::beast::iequals;
using boost::beast::string_view;

constexpr size_t kMostHeaderBytes = 8192, kMostBoundaryBytes = 70;  // RFC 2046: 70
constexpr uint32_t kMostParts = 64;

[[noreturn]] void fail(const std::string& message) {
  throw HttpError(400, "multipart/form-data: " + message);
}

std::string unquoted(string_view value) {
  std::string text(value.data(), value.size());
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return text;
  std::string result;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    // Browsers write %22 for a quotation mark; RFC 7230 has a backslash before it.
    if (text[i] == '\\' && i + 2 < text.size()) ++i;
    result += text[i];
  }
  return result;
}

// The parameters of a header value such as `form-data; name="file"`.
std::string parameter(std::string_view value, std::string_view wanted, bool& is_there) {
  const size_t at = value.find(';');
  is_there = false;
  if (at == std::string_view::npos) return "";
  const std::string_view list = value.substr(at);
  for (const auto& [name, text] :
       boost::beast::http::param_list(string_view(list.data(), list.size()))) {
    if (!iequals(name, string_view(wanted.data(), wanted.size()))) continue;
    is_there = true;
    return unquoted(text);
  }
  return "";
}

}  // namespace

MultipartParser::MultipartParser(std::string_view content_type, Events events)
    : events_(std::move(events)) {
  const std::string_view type = content_type.substr(0, content_type.find_first_of("; "));
  if (!iequals(string_view(type.data(), type.size()), "multipart/form-data")) {
    throw HttpError(400, "expected the content type multipart/form-data, found \"" +
                             std::string(type.substr(0, 64)) + "\"");
  }
  bool is_there = false;
  const std::string boundary = parameter(content_type, "boundary", is_there);
  if (!is_there || boundary.empty() || boundary.size() > kMostBoundaryBytes) {
    fail("expected a boundary of 1 to 70 characters");
  }
  delimiter_ = "\r\n--" + boundary;
}

void MultipartParser::push(std::string_view bytes) {
  held_ += bytes;
  while (parse_some()) {
  }
}

void MultipartParser::finish() {
  if (where_ != Where::kEnd) fail("the body ends before its last boundary");
}

// Whether there may be more to parse without further bytes.
bool MultipartParser::parse_some() {
  switch (where_) {
    case Where::kPreamble:
    case Where::kData: {
      const size_t at = held_.find(delimiter_);
      // The end of what is held may be the beginning of a delimiter.
      const size_t n = at != std::string::npos
                           ? at
                           : held_.size() - std::min(held_.size(), delimiter_.size() - 1);
      if (where_ == Where::kData && n > 0) events_.on_data(std::string_view(held_).substr(0, n));
      if (at == std::string::npos) {
        held_.erase(0, n);
        return false;
      }
      held_.erase(0, at + delimiter_.size());
      if (where_ == Where::kData) events_.on_part_end();
      where_ = Where::kAfterBoundary;
      return true;
    }
    case Where::kAfterBoundary: {
      if (held_.size() < 2) return false;
      if (held_.starts_with("--")) {
        where_ = Where::kEnd;
        return true;
      }
      const size_t text = held_.find_first_not_of(" \t");
      if (text == std::string::npos || text + 2 > held_.size()) {
        if (held_.size() > kMostHeaderBytes) fail("expected a line break after a boundary");
        return false;
      }
      if (held_.compare(text, 2, "\r\n") != 0) fail("expected a line break after a boundary");
      held_.erase(0, text);  // keeps the line break, so that a part without headers has one too
      where_ = Where::kHeaders;
      return true;
    }
    case Where::kHeaders: {
      const size_t end = held_.find("\r\n\r\n");
      if ((end == std::string::npos ? held_.size() : end) > kMostHeaderBytes) {
        fail("the headers of a part are too large");
      }
      if (end == std::string::npos) return false;
      begin_part(std::string_view(held_).substr(0, end));
      held_.erase(0, end + 4);
      where_ = Where::kData;
      return true;
    }
    case Where::kEnd:
      held_.clear();  // the epilogue is ignored
      return false;
  }
  return false;
}

void MultipartParser::begin_part(std::string_view headers) {
  if (++n_parts_ > kMostParts) fail("expected at most 64 parts");
  MultipartPart part;
  bool has_name = false;
  while (!headers.empty()) {
    const std::string_view line = headers.substr(0, headers.find("\r\n"));
    headers.remove_prefix(std::min(headers.size(), line.size() + 2));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    if (!iequals(string_view(line.data(), colon), "Content-Disposition")) continue;
    const std::string_view value = line.substr(colon + 1);
    part.name = parameter(value, "name", has_name);
    part.filename = parameter(value, "filename", part.is_file);
  }
  if (!has_name) fail("expected a part with Content-Disposition: form-data; name=\"...\"");
  events_.on_part(part);
}

}  // namespace vesper
