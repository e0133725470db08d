// The log of the server on standard error: a line for each event, as words NAME=VALUE (logfmt).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vesper {

using LogFields = std::vector<std::pair<std::string_view, std::string>>;

// "time=2026-11-25T14:00:00.123Z event=request id=... ": values that are not plain words are JSON
// texts. Thread-safe.
void write_log(std::string_view event, const LogFields& fields);

// The line without its time, for tests.
std::string log_line(std::string_view event, const LogFields& fields);

}  // namespace vesper
