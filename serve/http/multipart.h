// A parser of multipart/form-data (RFC 7578): the fields and files of an upload, piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace vesper {

struct MultipartPart {
  std::string name;      // of the field
  std::string filename;  // empty: not a file
  bool is_file = false;
};

class MultipartParser {
 public:
  // Called in this order for each part; on_data several times.
  struct Events {
    std::function<void(const MultipartPart& part)> on_part;
    std::function<void(std::string_view data)> on_data;
    std::function<void()> on_part_end;
  };

  // `content_type`: the value of the request's header. Throws HttpError(400) if it is not
  // multipart/form-data with a boundary (RFC 2046).
  MultipartParser(std::string_view content_type, Events events);

  // Throw HttpError(400) for what is malformed or incomplete, and for more than 64 parts or a part
  // with more than 8 KiB of headers.
  void push(std::string_view bytes);
  void finish();

 private:
  enum class Where { kPreamble, kAfterBoundary, kHeaders, kData, kEnd };
  bool parse_some();
  void begin_part(std::string_view headers);

  Events events_;
  std::string delimiter_;  // "\r\n--BOUNDARY"
  std::string held_ =
      "\r\n";  // bytes that are not parsed yet; a first boundary has no line before it
  Where where_ = Where::kPreamble;
  uint32_t n_parts_ = 0;
};

}  // namespace vesper
