#include "serve/server/log.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

namespace vesper {
namespace {

bool is_plain(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
  });
}

std::string time_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                      now - std::chrono::system_clock::from_time_t(seconds))
                      .count();
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 80> text{};
  const size_t n = std::strftime(text.data(), text.size(), "%FT%T", &utc);
  std::snprintf(text.data() + n, text.size() - n, ".%03dZ", static_cast<int>(ms));
  return text.data();
}

}  // namespace

std::string log_line(std::string_view event, const LogFields& fields) {
  std::string line = "event=" + std::string(event);
  for (const auto& [name, value] : fields) {
    line += " " + std::string(name) + "=";
    line += is_plain(value) ? value
                            : nlohmann::json(value).dump(-1, ' ', true,
                                                         nlohmann::json::error_handler_t::replace);
  }
  return line;
}

void write_log(std::string_view event, const LogFields& fields) {
  const std::string line = "time=" + time_text() + " " + log_line(event, fields) + "\n";
  // One call: lines of several threads do not mix. A log that cannot be written is no reason to
  // stop.
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace vesper
