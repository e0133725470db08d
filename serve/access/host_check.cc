#include "serve/access/host_check.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <utility>

namespace vesper {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// "[::1]:8080" -> "::1", "name:80" -> "name"; without the dot that ends an absolute name.
std::string name_of(std::string_view host) {
  if (host.starts_with('[')) return lower(host.substr(1, host.find(']') - 1));
  std::string name = lower(host.substr(0, host.rfind(':')));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

bool is_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  return ::inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::ranges::find(list, text) != list.end() || std::ranges::find(list, "*") != list.end();
}

}  // namespace

HostCheck::HostCheck(std::string listen_host, std::vector<std::string> hosts,
                     std::vector<std::string> origins)
    : hosts_(std::move(hosts)), origins_(std::move(origins)) {
  hosts_.push_back(std::move(listen_host));
  for (auto* list : {&hosts_, &origins_}) {
    for (std::string& text : *list) text = lower(text);
  }
}

bool HostCheck::allows_host(std::string_view host) const {
  const std::string name = name_of(host);
  return is_address(name) || name == "localhost" || name.ends_with(".localhost") ||
         (!name.empty() && contains(hosts_, name));
}

bool HostCheck::is_listed_origin(std::string_view origin) const {
  return contains(origins_, lower(origin));
}

bool HostCheck::allows_origin(std::string_view origin, std::string_view host) const {
  if (is_listed_origin(origin)) return true;
  const std::string own = lower(host);
  const std::string from = lower(origin);
  return !own.empty() && (from == "http://" + own || from == "https://" + own);
}

}  // namespace vesper
