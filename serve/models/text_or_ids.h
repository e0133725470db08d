// A text, or the token ids of one, as prompts and inputs of requests are.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace vesper {

using TextOrIds = std::variant<std::string, std::vector<int32_t>>;

}  // namespace vesper
