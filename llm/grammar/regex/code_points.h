// Sets of Unicode code points, as sorted ranges.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "llm/grammar/rules/grammar.h"

namespace vesper {

// Sorted, disjoint, not adjacent; without surrogates, which no text contains.
using CodePoints = std::vector<CodePointRange>;

constexpr uint32_t kLastCodePoint = 0x10ffff;

const CodePoints& all_code_points();
// Sorts and joins ranges in any order, and removes surrogates.
CodePoints code_points_of(std::vector<CodePointRange> ranges);
CodePoints complement_of(const CodePoints& set);
CodePoints intersection_of(const CodePoints& a, const CodePoints& b);
// The code points of a general category of Unicode: "L", "Lu", "Letter". Empty if there is no
// category of this name.
CodePoints code_points_of_category(std::string_view name);

}  // namespace vesper
