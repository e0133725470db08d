// Options structs that begin with their size, so that they can grow: a caller may have been
// compiled with an older or a newer header than the library.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "capi/errors.h"

namespace vesper::capi {

// Larger sizes are nonsense, such as the size of another thing or uninitialised memory.
inline constexpr size_t kMostOptionsBytes = 65536;

// Sizes at which a version of T can end: whole fields of any type.
template <class T>
bool is_options_size(size_t size) {
  return size >= sizeof(size_t) && size <= kMostOptionsBytes && size % alignof(T) == 0;
}

// Writes the defaults into the `size` bytes of the caller's struct, and 0 into those that this
// version of the library does not know. Throws ArgumentError for an impossible size.
template <class T>
void fill_options(T* options, size_t size, const T& defaults) {
  required("options", options);
  if (!is_options_size<T>(size)) {
    throw ArgumentError("size",
                        "expected the size of the options struct, found " + std::to_string(size));
  }
  auto* bytes = reinterpret_cast<std::byte*>(options);
  std::memset(bytes, 0, size);
  std::memcpy(bytes, &defaults, std::min(size, sizeof(T)));
  std::memcpy(bytes, &size, sizeof size);
}

// ..._options_init. An impossible call is the thread's error.
template <class T>
void init_options(const char* function, T* options, size_t size, T (*get_defaults)()) {
  guarded(function, nullptr, [&] { fill_options(options, size, get_defaults()); });
}

// The caller's options of any version, completed by the defaults. Throws ArgumentError for a size
// that cannot be, and for a field that is set and unknown to this version of the library.
template <class T>
T read_options(const char* argument, const T* given, const T& defaults) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, size) == 0);
  T options = defaults;
  if (!given) return options;
  const auto* bytes = reinterpret_cast<const std::byte*>(given);
  size_t size = 0;
  std::memcpy(&size, bytes, sizeof size);
  if (!is_options_size<T>(size)) {
    throw ArgumentError(argument, "expected options that their ..._init filled, found the size " +
                                      std::to_string(size));
  }
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != std::byte{0}) {
      throw ArgumentError(argument, "expected only fields that version " VESPER_VERSION
                                    " of the library knows, found one that is set at byte " +
                                        std::to_string(i));
    }
  }
  std::memcpy(&options, bytes, std::min(size, sizeof(T)));
  options.size = sizeof(T);
  return options;
}

// The number in an enum field, which a C caller may set to any int. Reading it as the enum would be
// undefined.
template <class Enum>
int number_of(const Enum& field) {
  static_assert(std::is_enum_v<Enum> && sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &field, sizeof number);
  return number;
}

}  // namespace vesper::capi
