#include "llm/cpu/buffer_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "error/error.h"
#include "llm/cpu/cpu_features.h"

namespace vesper {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kHugePage = 2 << 20;
constexpr uint64_t kPage = 4 << 10;
constexpr uint64_t kArenaBytes = 32 << 20;
// From this size on, check the available memory; below, a failing mapping is enough.
constexpr uint64_t kLarge = 64 << 20;
#ifdef NDEBUG
constexpr uint64_t kCanaryBytes = 0;
#else
constexpr uint64_t kCanaryBytes = 64;
#endif
constexpr std::byte kCanary{0xc5};

[[noreturn]] void fail(const std::string& label, uint64_t bytes) {
  constexpr uint64_t kMiB = 1 << 20;
  throw Error(ErrorKind::kDevice,
              "cpu: " + label + " needs " + std::to_string((bytes + kMiB - 1) / kMiB) +
                  " MiB of memory, " + std::to_string(available_memory_bytes() / kMiB) +
                  " MiB are available");
}

}  // namespace

BufferArena::~BufferArena() {
  for (const Mapping& mapping : mappings_) munmap(mapping.start, mapping.bytes);
}

std::byte* BufferArena::cut(uint64_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes > kArenaBytes) return nullptr;
  if (bytes > left_) {
    constexpr uint64_t kMapped = kArenaBytes + kHugePage;
    void* const start =
        mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return nullptr;
    mappings_.push_back({start, kMapped});
    const uintptr_t aligned =
        (reinterpret_cast<uintptr_t>(start) + kHugePage - 1) / kHugePage * kHugePage;
    next_ = reinterpret_cast<std::byte*>(aligned);
    left_ = kArenaBytes;
    // If the system refuses, small pages work too.
    (void)madvise(next_, kArenaBytes, MADV_HUGEPAGE);
  }
  std::byte* const found = next_;
  next_ += bytes;
  left_ -= bytes;
  return found;
}

BufferMemory::BufferMemory(uint64_t bytes, std::string label, BufferArena* arena)
    : bytes_(bytes), label_(std::move(label)) {
  if (bytes > UINT64_MAX / 2 || (bytes >= kLarge && bytes > available_memory_bytes())) {
    fail(label_, bytes);
  }
  const uint64_t wanted = kCanaryBytes + (bytes + kAlignment - 1) / kAlignment * kAlignment +
                          std::max(kCanaryBytes, kAlignment);
  if (arena != nullptr && bytes >= kPage && wanted < kHugePage) {
    if (std::byte* const start = arena->cut(wanted)) {
      data_ = start + kCanaryBytes;
      std::fill_n(start, kCanaryBytes, kCanary);
      std::fill_n(data_ + bytes_, kCanaryBytes, kCanary);
      return;
    }
  }
  // Room to align to a huge page: mappings begin at any small page.
  mapping_bytes_ = wanted >= kHugePage ? wanted + kHugePage : wanted;
  mapping_ =
      mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    fail(label_, bytes);
  }
  auto start = reinterpret_cast<uintptr_t>(mapping_);
  if (wanted >= kHugePage) {
    start = (start + kHugePage - 1) / kHugePage * kHugePage;
    // If the system refuses, small pages work too.
    (void)madvise(reinterpret_cast<void*>(start), wanted, MADV_HUGEPAGE);
  }
  data_ = reinterpret_cast<std::byte*>(start) + kCanaryBytes;
  std::fill_n(data_ - kCanaryBytes, kCanaryBytes, kCanary);
  std::fill_n(data_ + bytes_, kCanaryBytes, kCanary);
}

BufferMemory::BufferMemory(BufferMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(other.mapping_bytes_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      label_(std::move(other.label_)) {}

BufferMemory::~BufferMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

void BufferMemory::check_canaries() const {
  for (uint64_t i = 0; i < kCanaryBytes; ++i) {
    if (*(data_ - kCanaryBytes + i) != kCanary) {
      throw Error(ErrorKind::kInternal, "cpu: a kernel wrote " + std::to_string(kCanaryBytes - i) +
                                            " bytes before buffer " + label_);
    }
    if (*(data_ + bytes_ + i) != kCanary) {
      throw Error(ErrorKind::kInternal, "cpu: a kernel wrote " + std::to_string(i + 1) +
                                            " bytes past the end of buffer " + label_);
    }
  }
}

}  // namespace vesper
