// Checks of the headers Host and Origin, which keep other web sites from using a server through a
// visitor's browser: by DNS rebinding (a name of theirs that resolves to this machine) and by
// requests across origins.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vesper {

class HostCheck {
 public:
  // `listen_host`: the name or address that the server listens on. `hosts`: further names that
  // clients may use, without a port; "*": any. `origins`: other web sites that may use the server
  // ("https://chat.example.org"); "*": any.
  HostCheck(std::string listen_host, std::vector<std::string> hosts,
            std::vector<std::string> origins);

  // Whether a request with this header Host is meant for this server: an address, localhost, the
  // name that it listens on, or an allowed one. An address is no name that somebody else may own.
  bool allows_host(std::string_view host) const;
  // Whether a browser's page of this origin may use the server: its own page, whose origin has the
  // request's host, or an allowed one.
  bool allows_origin(std::string_view origin, std::string_view host) const;
  // Whether answers say so to the browser (CORS): only for allowed origins, not for the own page.
  bool is_listed_origin(std::string_view origin) const;

 private:
  std::vector<std::string> hosts_, origins_;  // in lower case
};

}  // namespace vesper
