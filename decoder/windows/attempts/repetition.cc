#include "decoder/windows/attempts/repetition.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <vector>

namespace vesper {

double compression_ratio(const std::string& text) {
  if (text.empty()) return 0;
  uLongf n_deflated = compressBound(text.size());
  std::vector<Bytef> deflated(n_deflated);
  if (compress(deflated.data(), &n_deflated, reinterpret_cast<const Bytef*>(text.data()),
               text.size()) != Z_OK) {
    throw std::bad_alloc();  // the only error with a buffer of compressBound()
  }
  return static_cast<double>(text.size()) / static_cast<double>(n_deflated);
}

bool is_one_loop(std::span<const int32_t> tokens, const WindowPolicy& policy) {
  const size_t rounds = policy.one_loop_rounds;
  size_t longest = 0;  // run of equal periods
  for (size_t period = 1; period * rounds <= tokens.size(); ++period) {
    size_t length = period;
    for (size_t i = period; i < tokens.size(); ++i) {
      length = tokens[i] == tokens[i - period] ? length + 1 : period;
      if (length >= period * rounds) longest = std::max(longest, length);
    }
  }
  return longest > 0 &&
         static_cast<double>(longest) >= policy.one_loop_share * static_cast<double>(tokens.size());
}

}  // namespace vesper
