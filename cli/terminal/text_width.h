// How wide text is on a terminal.
#pragma once

#include <string_view>

namespace vesper {

// Columns that valid UTF-8 takes: two for each wide character (Chinese, Japanese, Korean, emoji),
// none for one that combines with the one before it.
int text_width(std::string_view text);

}  // namespace vesper
