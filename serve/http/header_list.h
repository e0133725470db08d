// A header whose value is a list (RFC 9110, section 5.6.1).
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace vesper {

// The items between the commas, without blanks around them.
inline std::vector<std::string_view> list_items(std::string_view list) {
  constexpr std::string_view kBlank = " \t";
  std::vector<std::string_view> items;
  while (!list.empty()) {
    std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    item.remove_prefix(std::min(item.find_first_not_of(kBlank), item.size()));
    item = item.substr(0, item.find_last_not_of(kBlank) + 1);
    if (!item.empty()) items.push_back(item);
  }
  return items;
}

}  // namespace vesper
