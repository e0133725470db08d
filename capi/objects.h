// The open objects of the C API, by address. An address that is not in the registry is never read,
// so that NULL, a closed object and one of another kind are errors with a message.
//
//   struct vesper_whisper final : vesper::capi::Object { ... };
//   return open_object(__func__, model, "whisper", whisper, [&] { ... });   // ..._open
//   const Use<vesper_whisper> use("whisper", whisper);               // use->session
//   close_object("vesper_whisper_close", "whisper", whisper);        // ..._close
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "capi/errors.h"

namespace vesper::capi {

// The base of every kind of object. A kind is a final struct with
// `static constexpr std::string_view kKind = "a Whisper model"`, and Object as its only base.
class Object {
 public:
  explicit Object(std::string_view kind) : kind_(kind) { error_[0] = '\0'; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  std::string_view kind() const { return kind_; }

 private:
  friend void add_to_registry(std::shared_ptr<Object> object);
  friend void set_error_of(const void* object, const ErrorMessage& message) noexcept;
  friend void get_error_of(const void* object, ErrorMessage& message) noexcept;
  template <class T>
  friend class Use;

  std::string_view kind_;
  std::atomic<bool> is_used_ = false;
  ErrorMessage error_;  // guarded by the registry's mutex
};

void add_to_registry(std::shared_ptr<Object> object);
// Null if no object with this address is open.
std::shared_ptr<Object> find_in_registry(const void* address) noexcept;
// Removes an object of this kind and returns it; null if there is none.
std::shared_ptr<Object> remove_from_registry(const void* address, std::string_view kind) noexcept;
// The message of an object's last error. Setting it does nothing if it is not open; getting gives
// "".
void set_error_of(const void* object, const ErrorMessage& message) noexcept;
void get_error_of(const void* object, ErrorMessage& message) noexcept;

// Throws ArgumentError about a handle that is not an open object of `kind`.
[[noreturn]] void refuse_handle(const char* argument, const void* handle, std::string_view kind);

// Registers a new object and returns its handle.
template <class T>
T* add_object(std::shared_ptr<T> object) {
  T* handle = object.get();
  add_to_registry(std::move(object));
  return handle;
}

// Opens a model for a function: `open` makes its object, whose handle becomes *handle. `argument`
// is the name of `handle`.
template <class T, class Open>
vesper_status open_object(const char* function, const char* model, const char* argument, T** handle,
                          const Open& open) {
  if (handle) *handle = nullptr;
  return guarded(function, nullptr, [&] {
    required("model", model);
    required(argument, handle);
    *handle = add_object(open());
  });
}

// The object of a handle, for functions that several threads may call at once. Throws
// ArgumentError unless it is open and a T.
template <class T>
std::shared_ptr<T> find_object(const char* argument, const T* handle) {
  std::shared_ptr<Object> object = find_in_registry(handle);
  if (!object || object->kind() != T::kKind) refuse_handle(argument, handle, T::kKind);
  return std::static_pointer_cast<T>(std::move(object));
}

// The use of an object by one call, or as long as another object needs it. Keeps it alive. Throws
// ArgumentError for a handle like find_object, and if the object is in use.
template <class T>
class Use {
 public:
  Use(const char* argument, const T* handle) : object_(find_object(argument, handle)) {
    if (object_->is_used_.exchange(true, std::memory_order_acquire)) {
      throw ArgumentError(argument, "expected " + std::string(T::kKind) +
                                        " that no other call and no open stream is using, found "
                                        "one that is in use");
    }
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { object_->is_used_.store(false, std::memory_order_release); }

  T* operator->() const { return object_.get(); }
  T& operator*() const { return *object_; }

 private:
  std::shared_ptr<T> object_;
};

// Closes an object; NULL is ignored. One that a call is using ends with that call.
template <class T>
void close_object(const char* function, const char* argument, T* handle) {
  if (!handle) return;
  guarded(function, handle, [&] {
    if (!remove_from_registry(handle, T::kKind)) refuse_handle(argument, handle, T::kKind);
  });
}

}  // namespace vesper::capi
