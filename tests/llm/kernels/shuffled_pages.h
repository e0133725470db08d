// Pages of a KV cache in random order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace vesper::test {

// A page table with the numbers 0 to n - 1, shuffled.
inline std::vector<int32_t> shuffled_pages(size_t n, std::mt19937& random) {
  std::vector<int32_t> pages(n);
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), random);
  return pages;
}

}  // namespace vesper::test
