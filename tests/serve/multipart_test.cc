// The parser of uploads.
#include "serve/http/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "serve/http/http_exchange.h"

namespace vesper::multipart_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kType = "multipart/form-data; boundary=\"cut here\"";

// "name[filename]=data" for each part, of a body that comes in pieces.
std::vector<std::string> parts_of(const std::string& body, size_t piece,
                                  const std::string& type = kType) {
  std::vector<std::string> parts;
  MultipartParser parser(
      type,
      {.on_part =
           [&](const MultipartPart& part) {
             parts.push_back(part.name + (part.is_file ? "[" + part.filename + "]" : "") + "=");
           },
       .on_data = [&](std::string_view data) { parts.back() += data; },
       .on_part_end = [&] { parts.back() += "."; }});
  for (size_t at = 0; at < body.size(); at += piece) parser.push(body.substr(at, piece));
  parser.finish();
  return parts;
}

std::string error_of(const std::string& body, const std::string& type = kType) {
  try {
    parts_of(body, body.size() + 1, type);
  } catch (const HttpError& error) {
    EXPECT_EQ(error.status(), 400u);
    return error.what();
  }
  return "";
}

TEST(Multipart, GivesPartsWhateverThePieces) {
  const std::string body =
      "ignored\r\n--cut here\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nbase\r\n"
      "--cut here \r\ncontent-type: audio/wav\r\n"
      "content-disposition: form-data; filename=\"a \\\"b\\\".wav\"; name=file\r\n\r\n"
      "\r\n--cut her\r\n--cut\r\n\r\n--cut here\r\n"
      "Content-Disposition: form-data; name=\"empty\"\r\n\r\n\r\n--cut here--\r\nafter";
  for (const size_t piece : {1, 2, 3, 7, 64, 1000}) {
    EXPECT_THAT(
        parts_of(body, piece),
        ElementsAre("model=base.", "file[a \"b\".wav]=\r\n--cut her\r\n--cut\r\n.", "empty=."))
        << piece;
  }
}

TEST(Multipart, RefusesOtherTypesAndIncompleteBodies) {
  EXPECT_THAT(error_of("", "application/json"), HasSubstr("\"application/json\""));
  EXPECT_THAT(error_of("", "multipart/form-data"), HasSubstr("boundary"));
  EXPECT_THAT(error_of("", "multipart/form-data; boundary=" + std::string(71, 'x')),
              HasSubstr("70"));
  EXPECT_THAT(error_of(""), HasSubstr("ends before"));
  const std::string part = "--cut here\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n";
  EXPECT_EQ(error_of(part + "--cut here--"), "");
  EXPECT_THAT(error_of(part), HasSubstr("ends before"));
  EXPECT_THAT(error_of("--cut here\r\n\r\nx\r\n--cut here--"), HasSubstr("name="));
  EXPECT_THAT(error_of("--cut here?\r\n\r\nx"), HasSubstr("line break"));
}

TEST(Multipart, BoundsPartsAndTheirHeaders) {
  const std::string part = "--cut here\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n";
  std::string many;
  for (int i = 0; i < 64; ++i) many += part;
  EXPECT_EQ(error_of(many + "--cut here--"), "");
  EXPECT_THAT(error_of(many + part + "--cut here--"), HasSubstr("at most 64 parts"));
  EXPECT_THAT(error_of("--cut here\r\nLong: " + std::string(9000, 'x')), HasSubstr("too large"));
}

}  // namespace
}  // namespace vesper::multipart_test
