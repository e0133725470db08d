#include "cli/terminal/text_width.h"

#include <utf8proc.h>

namespace vesper {

int text_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t n =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                         static_cast<utf8proc_ssize_t>(text.size()), &code_point);
    width += n > 0 ? utf8proc_charwidth(code_point) : 1;
    text.remove_prefix(n > 0 ? static_cast<size_t>(n) : 1);
  }
  return width;
}

}  // namespace vesper
