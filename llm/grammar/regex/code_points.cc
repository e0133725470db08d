#include "llm/grammar/regex/code_points.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

namespace vesper {
namespace {

constexpr uint32_t kFirstSurrogate = 0xd800, kLastSurrogate = 0xdfff;

// Long names of the categories of one letter, as in regular expressions of ECMA-262.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kLongNames = {
    {{"Letter", "L"},
     {"Uppercase_Letter", "Lu"},
     {"Lowercase_Letter", "Ll"},
     {"Titlecase_Letter", "Lt"},
     {"Modifier_Letter", "Lm"},
     {"Other_Letter", "Lo"},
     {"Mark", "M"},
     {"Number", "N"},
     {"Decimal_Number", "Nd"},
     {"Letter_Number", "Nl"},
     {"Punctuation", "P"},
     {"Symbol", "S"},
     {"Separator", "Z"},
     {"Other", "C"}}};

}  // namespace

const CodePoints& all_code_points() {
  static const CodePoints all = {{0, kFirstSurrogate - 1}, {kLastSurrogate + 1, kLastCodePoint}};
  return all;
}

CodePoints code_points_of(std::vector<CodePointRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.first < b.first; });
  CodePoints joined;
  for (const CodePointRange& range : ranges) {
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  return intersection_of(joined, all_code_points());
}

CodePoints complement_of(const CodePoints& set) {
  CodePoints gaps;
  uint32_t next = 0;
  for (const CodePointRange& range : set) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) gaps.push_back({next, kLastCodePoint});
  return intersection_of(gaps, all_code_points());
}

CodePoints intersection_of(const CodePoints& a, const CodePoints& b) {
  CodePoints both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const uint32_t first = std::max(a[i].first, b[j].first);
    const uint32_t last = std::min(a[i].last, b[j].last);
    if (first <= last) both.push_back({first, last});
    a[i].last < b[j].last ? ++i : ++j;
  }
  return both;
}

CodePoints code_points_of_category(std::string_view name) {
  for (const auto& [long_name, short_name] : kLongNames) {
    if (name == long_name) name = short_name;
  }
  std::vector<CodePointRange> ranges;
  if (name.empty() || name.size() > 2) return ranges;
  for (uint32_t c = 0; c <= kLastCodePoint; ++c) {
    const char* category = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
    if (std::string_view(category).substr(0, name.size()) != name) continue;
    if (!ranges.empty() && ranges.back().last + 1 == c) {
      ranges.back().last = c;
    } else {
      ranges.push_back({c, c});
    }
  }
  return code_points_of(std::move(ranges));
}

}  // namespace vesper
