// The web page of the server: files for a path, and the headers that they are served with.
//
// In: the path and If-None-Match of a request. Out: what to answer. The page is a client of the API
// like any other: it gets no rights from where it comes.
#pragma once

#include <optional>
#include <string_view>

namespace vesper {

struct PageFile {
  std::string_view content_type;
  std::string_view etag;  // a strong validator, in quotes
  std::string_view bytes;
};

// The file of "/" or "/NAME"; none: the page has no such file.
std::optional<PageFile> page_file(std::string_view path);

// Whether the header If-None-Match (RFC 9110, section 13.1.2) names this version of a file.
bool has_etag(std::string_view if_none_match, std::string_view etag);

// Allows what the page needs, and nothing from other origins: its own scripts and styles, requests
// to its own server, and recordings that the browser holds (blob:). No other page may frame it.
inline constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "media-src blob:; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";
// The page uses the microphone, and no other device.
inline constexpr std::string_view kPermissionsPolicy =
    "microphone=(self), camera=(), geolocation=(), usb=(), serial=(), payment=()";

}  // namespace vesper
