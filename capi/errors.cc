#include "capi/errors.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include "capi/objects.h"
#include "capi/options.h"

namespace vesper::capi {
namespace {

// Settings whose name in the library differs from the field of the options struct by more than
// spaces for underscores.
struct FieldName {
  std::string_view setting, field;
  std::string_view functions = "";  // beginning of the names of the functions that have the field
};
constexpr FieldName kFieldNames[] = {
    {"diarize", "channels"},
    {"window rule", "disabled_rules"},
    {"hallucination silence threshold", "hallucination_silence_threshold_s"},
    {"max initial timestamp", "max_initial_timestamp_s"},
    {"logprobs", "top_logprobs"},
    {"slots", "batch_size"},
    {"stop", "stops"},
    {"stream step", "step_s"},
    {"temperature", "temperatures", "vesper_stream_"},
    {"temperature", "temperatures", "vesper_whisper_"},
};

// Arrays, because the first use of a thread_local string takes memory.
thread_local ErrorMessage last_error{};
thread_local std::array<char, 64> last_setting{};
thread_local ErrorMessage object_error{};

// Appends to a zero-terminated text as much as fits, in whole characters of UTF-8.
template <size_t kSize>
void append(std::array<char, kSize>& text, std::string_view more) noexcept {
  const size_t at = std::strlen(text.data());
  size_t n = std::min(more.size(), text.size() - 1 - at);
  if (n < more.size()) {
    while (n > 0 && (more[n] & 0xc0) == 0x80) --n;
  }
  std::memcpy(text.data() + at, more.data(), n);
  text[at + n] = '\0';
}

void set_setting(std::string_view function, std::string_view setting) noexcept {
  last_setting[0] = '\0';
  for (const FieldName& name : kFieldNames) {
    if (name.setting == setting && function.starts_with(name.functions)) {
      return append(last_setting, name.field);
    }
  }
  append(last_setting, setting);
  for (char& c : last_setting) {
    if (c == ' ') c = '_';
  }
}

// The message begins with the name of the function, if it is about its call.
vesper_status set_error(vesper_status status, std::string_view function, bool is_about_call,
                        std::string_view setting, std::string_view message) noexcept {
  set_setting(function, setting);
  last_error[0] = '\0';
  if (is_about_call) {
    append(last_error, function);
    append(last_error, ": ");
  }
  if (!setting.empty() && message.starts_with(setting)) {
    append(last_error, last_setting.data());
    message.remove_prefix(setting.size());
  }
  append(last_error, message);
  return status;
}

vesper_status status_of_exception(const char* function) noexcept {
  try {
    throw;
  } catch (const ArgumentError& error) {
    return set_error(VESPER_ERROR_USAGE, function, true, "", error.what());
  } catch (const Error& error) {
    return set_error(static_cast<vesper_status>(exit_status(error.kind())), function, false,
                     error.setting(), error.what());
  } catch (const std::bad_alloc&) {
    return set_error(VESPER_ERROR_DEVICE, function, false, "", "out of memory");
  } catch (const std::exception& error) {
    return set_error(VESPER_ERROR_INTERNAL, function, true, "", error.what());
  } catch (...) {
    return set_error(VESPER_ERROR_INTERNAL, function, true, "", "an exception of an unknown type");
  }
}

}  // namespace

vesper_status fail(const char* function, const void* object) noexcept {
  const vesper_status status = status_of_exception(function);
  if (object) set_error_of(object, last_error);
  return status;
}

char* copied_string(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace vesper::capi

extern "C" {

const char* vesper_status_name(vesper_status status) {
  switch (vesper::capi::number_of(status)) {
    case VESPER_OK:
      return "ok";
    case VESPER_ERROR_USAGE:
      return "usage";
    case VESPER_ERROR_INPUT:
      return "input";
    case VESPER_ERROR_MODEL:
      return "model";
    case VESPER_ERROR_DEVICE:
      return "device";
    case VESPER_ERROR_OUTPUT:
      return "output";
    case VESPER_ERROR_STOPPED:
      return "stopped";
    case VESPER_ERROR_INTERNAL:
      return "internal";
    default:
      return "unknown";
  }
}

const char* vesper_last_error(void) { return vesper::capi::last_error.data(); }

const char* vesper_last_error_setting(void) { return vesper::capi::last_setting.data(); }

const char* vesper_error_of(const void* object) {
  vesper::capi::get_error_of(object, vesper::capi::object_error);
  return vesper::capi::object_error.data();
}

void vesper_string_free(char* string) { std::free(string); }

}  // extern "C"
