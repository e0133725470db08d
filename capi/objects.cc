#include "capi/objects.h"

#include <cstddef>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

namespace vesper::capi {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects;
};

// Never destroyed: objects may be used and closed while the process ends.
Registry& registry() {
  alignas(Registry) static std::byte memory[sizeof(Registry)];
  static Registry* const only = new (memory) Registry;
  return *only;
}

}  // namespace

void add_to_registry(std::shared_ptr<Object> object) {
  const void* address = object.get();
  const std::lock_guard lock(registry().mutex);
  registry().objects.insert_or_assign(address, std::move(object));
}

std::shared_ptr<Object> find_in_registry(const void* address) noexcept {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().objects.find(address);
  return found == registry().objects.end() ? nullptr : found->second;
}

std::shared_ptr<Object> remove_from_registry(const void* address, std::string_view kind) noexcept {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().objects.find(address);
  if (found == registry().objects.end() || found->second->kind() != kind) return nullptr;
  std::shared_ptr<Object> object = std::move(found->second);
  registry().objects.erase(found);
  return object;
}

void set_error_of(const void* object, const ErrorMessage& message) noexcept {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().objects.find(object);
  if (found != registry().objects.end()) found->second->error_ = message;
}

void get_error_of(const void* object, ErrorMessage& message) noexcept {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().objects.find(object);
  if (found == registry().objects.end()) {
    message[0] = '\0';
  } else {
    message = found->second->error_;
  }
}

void refuse_handle(const char* argument, const void* handle, std::string_view kind) {
  const std::shared_ptr<Object> other = find_in_registry(handle);
  const std::string found = !handle ? "NULL"
                            : other ? std::string(other->kind())
                                    : "an address where no object is open";
  throw ArgumentError(argument, "expected " + std::string(kind) + " that is open, found " + found);
}

}  // namespace vesper::capi
