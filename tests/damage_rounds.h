// How often a test damages its input at random.
#pragma once

#include <cstddef>

namespace vesper {

// `n`, or a tenth of it under sanitizers, which take ten times as long and whose fuzz targets damage
// input of the same readers (tests/fuzz).
constexpr size_t damage_rounds(size_t n) {
#if defined(VESPER_SANITIZED)
  return n / 10;
#else
  return n;
#endif
}

}  // namespace vesper
