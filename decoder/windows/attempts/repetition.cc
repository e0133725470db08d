#include "decoder/windows/attempts/repetition.h"

#include <zlib.h>

#include <new>
#include <vector>

#include "llm/generation/token_loops.h"

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
  const size_t longest = longest_loop(tokens, policy.one_loop_rounds).length;
  return longest > 0 &&
         static_cast<double>(longest) >= policy.one_loop_share * static_cast<double>(tokens.size());
}

}  // namespace vesper
