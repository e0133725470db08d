// Labels of commands without layer numbers.
#pragma once

#include <cctype>
#include <string>

namespace vesper {

// "decoder.attn.q" for "decoder.3.attn.q".
inline std::string without_layer(const std::string& label) {
  std::string name;
  for (size_t i = 0; i < label.size(); ++i) {
    if (label[i] == '.' && i + 1 < label.size() && std::isdigit(label[i + 1])) {
      while (i + 1 < label.size() && std::isdigit(label[i + 1])) ++i;
    } else {
      name += label[i];
    }
  }
  return name;
}

}  // namespace vesper
