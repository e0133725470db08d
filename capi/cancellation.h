// Flags by which any thread, or a signal handler, ends calls of the C API.
#pragma once

#include <vesper/base.h>

#include <functional>

namespace vesper::capi {

// The is_cancelled of a session's events: whether the cancellation is requested; empty for NULL.
// Throws ArgumentError unless it is open.
std::function<bool()> is_cancelled(const vesper_cancellation* cancellation);

}  // namespace vesper::capi
