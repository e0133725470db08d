#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "llm/grammar/json_schema/keywords.h"

namespace vesper {
namespace {

// Years begin with 0001. February has 29 days in leap years.
#define VESPER_DATE                                                           \
  "((000[1-9]|00[1-9]\\d|0[1-9]\\d\\d|[1-9]\\d{3})-"                          \
  "((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|" \
  "02-(0[1-9]|1\\d|2[0-8]))|"                                                 \
  "(\\d\\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)"
#define VESPER_TIME \
  "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
// Without "--": the standard gives such labels a meaning.
#define VESPER_LABEL "[A-Za-z0-9](-?[A-Za-z0-9]){0,30}"
#define VESPER_OCTET "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define VESPER_IPV4 VESPER_OCTET "(\\." VESPER_OCTET "){3}"
#define VESPER_H16 "[0-9A-Fa-f]{1,4}"
// Characters of a URI's path, and an escaped byte.
#define VESPER_PCHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define VESPER_SEGMENTS "(/" VESPER_PCHAR "*)*"
#define VESPER_ROOTED "/(" VESPER_PCHAR "+" VESPER_SEGMENTS ")?"
#define VESPER_URI_END "(\\?(" VESPER_PCHAR "|[/?])*)?(#(" VESPER_PCHAR "|[/?])*)?"
#define VESPER_AUTHORITY                                                                        \
  "//"                                                                                          \
  "(([A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})+@)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:" \
  "\\d{1,5})?"

#define VESPER_URI                                                              \
  "[A-Za-z][A-Za-z0-9+.-]*:(" VESPER_AUTHORITY VESPER_SEGMENTS "|" VESPER_PCHAR \
  "+" VESPER_SEGMENTS "|" VESPER_ROOTED ")"

// Every text of a pattern has the format. Where the standard admits more (comments in addresses,
// leap seconds, literal IPv6 addresses in a URI), that is not generated.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kFormats = {{
    {"date", "^" VESPER_DATE "$"},
    {"time", "^" VESPER_TIME "$"},
    {"date-time", "^" VESPER_DATE "T" VESPER_TIME "$"},
    // RFC 3339, appendix A.
    {"duration",
     "^P(\\d+W|(\\d+Y(\\d+M(\\d+D)?)?|\\d+M(\\d+D)?|\\d+D)(T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|"
     "\\d+S))?|T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))$"},
    {"email",
     "^[A-Za-z0-9_+-]{1,40}(\\.[A-Za-z0-9_+-]{1,20})?@(" VESPER_LABEL "\\.){1,3}[A-Za-z]{2,24}$"},
    {"hostname", "^" VESPER_LABEL "(\\." VESPER_LABEL "){0,2}$"},
    {"ipv4", "^" VESPER_IPV4 "$"},
    {"ipv6",
     "^((" VESPER_H16 ":){7}" VESPER_H16 "|:((:" VESPER_H16 "){1,7}|:)|(" VESPER_H16
     ":){1,7}:|(" VESPER_H16 ":){1,6}:" VESPER_H16 "|(" VESPER_H16 ":){1,5}(:" VESPER_H16
     "){2}|(" VESPER_H16 ":){1,4}(:" VESPER_H16 "){3}|(" VESPER_H16 ":){1,3}(:" VESPER_H16
     "){4}|(" VESPER_H16 ":){1,2}(:" VESPER_H16 "){5}|" VESPER_H16 ":(:" VESPER_H16 "){6})$"},
    {"uri", "^(" VESPER_URI ")" VESPER_URI_END "$"},
    {"uri-reference", "^(" VESPER_URI "|" VESPER_ROOTED ")?" VESPER_URI_END "$"},
    {"uuid", "^[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$"},
    {"json-pointer", "^(/([^/~]|~[01])*)*$"},
    {"relative-json-pointer", "^(0|[1-9]\\d*)(#|(/([^/~]|~[01])*)*)$"},
}};

}  // namespace

std::string_view pattern_of_format(std::string_view format) {
  const auto found = std::find_if(kFormats.begin(), kFormats.end(),
                                  [&](const auto& entry) { return entry.first == format; });
  return found == kFormats.end() ? std::string_view() : found->second;
}

std::string known_formats() {
  std::string names;
  for (const auto& [name, pattern] : kFormats) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

}  // namespace vesper
