// What the targets of the C API share: each byte of an input chooses a function, an argument or a
// setting. Handles are open, closed, NULL or of another kind.
#pragma once

#include <vesper.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {

// Choices from an input; 0 after its end.
class Choices {
 public:
  explicit Choices(Bytes bytes) : bytes_(bytes) {}
  bool is_over() const { return at_ >= bytes_.size(); }
  uint8_t byte() { return is_over() ? 0 : bytes_[at_++]; }
  template <class T, size_t kSize>
  T one_of(const std::array<T, kSize>& values) {
    return values[byte() % kSize];
  }

  double number() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return one_of(std::array{0.0, 1.0, -1.0, 0.5, 2.0, 1e-9, 1e9, -1e300, kInfinity, -kInfinity,
                             std::nan(""), 0.2, 100.0});
  }
  uint32_t count() {
    return one_of(std::array{0u, 1u, 2u, 3u, 5u, 16u, 100u, 16000u, 44100u, 0x7fffffffu, ~0u});
  }
  int truth() { return one_of(std::array{0, 1, -1, 2}); }

 private:
  Bytes bytes_;
  size_t at_ = 0;
};

// The calls of one input. A target derives from it.
class CApiCalls {
 public:
  // `model`: the handle of all inputs, which is never closed; opening one takes seconds with
  // libFuzzer's counters.
  CApiCalls(Bytes input, void* model) : choose_(input), handles_{nullptr, model}, model_(model) {}
  virtual ~CApiCalls() = default;
  CApiCalls(const CApiCalls&) = delete;
  CApiCalls& operator=(const CApiCalls&) = delete;

  void run(size_t most_calls = 12) {
    for (size_t i = 0; i < most_calls && !choose_.is_over(); ++i) call();
    for (void* handle : handles_) close(handle);
  }

 protected:
  // One call of a function.
  virtual void call() = 0;
  // Calls the functions that close a handle of any kind but the model's.
  virtual void close_others(void* handle) const = 0;
  virtual void close_model(void* handle) const = 0;

  void close(void* handle) const {
    vesper_cancellation_free(static_cast<vesper_cancellation*>(handle));
    close_others(handle);
    if (handle != model_) close_model(handle);
  }

  template <class T>
  T* handle() {
    return static_cast<T*>(handles_[choose_.byte() % handles_.size()]);
  }
  template <class T>
  void keep(T* handle) {
    if (handle && handles_.size() < 64) handles_.push_back(handle);
  }

  void call_cancellation() {
    switch (choose_.byte() % 3) {
      case 0: {
        vesper_cancellation* cancellation = nullptr;
        check(vesper_cancellation_new(choose_.byte() % 8 ? &cancellation : nullptr));
        return keep(cancellation);
      }
      case 1:
        return vesper_cancellation_request(handle<vesper_cancellation>());
      default:
        return vesper_cancellation_reset(handle<vesper_cancellation>());
    }
  }

  // A size of an options struct, mostly wrong.
  size_t size_of(size_t right) {
    return choose_.one_of(std::array{right, size_t{0}, size_t{8}, size_t{64}, right - 8,
                                     std::numeric_limits<size_t>::max()});
  }

  // `out`: a result, which must be absent after an error.
  static void check(vesper_status status, const void* out = nullptr) {
    require(std::strcmp(vesper_status_name(status), "unknown") != 0, "an unknown status");
    require(status != VESPER_ERROR_INTERNAL, vesper_last_error());
    if (status == VESPER_OK) return;
    require(vesper_last_error()[0] != '\0', "an error without a message");
    require(!out, "a result after an error");
  }

  Choices choose_;

 private:
  std::vector<void*> handles_;  // open ones, closed ones, and NULL
  void* model_;
};

}  // namespace vesper::fuzz
