// Numbers for people, in messages and reports.
#pragma once

#include <cstdint>
#include <string>

namespace vesper {

// The text that printf would write.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);
// "1.2 GB", "34.0 MB", "980 bytes": powers of 1000.
std::string bytes_text(uint64_t bytes);
// "134,515,008"
std::string grouped(uint64_t number);

}  // namespace vesper
