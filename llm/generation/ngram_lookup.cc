#include "llm/generation/ngram_lookup.h"

#include <algorithm>
#include <bit>

#include "shaders/kernel_params.h"

namespace vesper {
namespace {

constexpr uint32_t kLeastBuckets = 64, kMostBuckets = 1u << 16;
constexpr uint32_t kMostCandidatesOfMatch = 64;

}  // namespace

NgramLookup::NgramLookup(uint32_t n_ctx)
    : last_(std::clamp(std::bit_ceil(n_ctx), kLeastBuckets, kMostBuckets)), before_(n_ctx + 1) {}

void NgramLookup::clear() {
  std::ranges::fill(last_, 0);
  n_indexed_ = 0;
}

uint32_t NgramLookup::bucket(int32_t first, int32_t second) const {
  const uint32_t bits = mix_bits(static_cast<uint32_t>(first) * kNoiseStride ^
                                 mix_bits(static_cast<uint32_t>(second)));
  return bits & (static_cast<uint32_t>(last_.size()) - 1);
}

void NgramLookup::extend(std::span<const int32_t> text) {
  for (; n_indexed_ < text.size(); ++n_indexed_) {
    if (n_indexed_ == 0) continue;
    uint32_t& last = last_[bucket(text[n_indexed_ - 1], text[n_indexed_])];
    before_[n_indexed_ + 1] = last;
    last = n_indexed_ + 1;
  }
}

NgramLookup::Match NgramLookup::find(std::span<const int32_t> text) const {
  Match best;
  if (text.size() <= kLeastLength) return best;
  const auto end = static_cast<uint32_t>(text.size());
  uint32_t next = before_[end];
  for (uint32_t i = 0; i < kMostCandidatesOfMatch && next != 0; ++i, next = before_[next]) {
    uint32_t length = 0;
    const uint32_t most = std::min(kMostLength, next);
    while (length < most && text[next - 1 - length] == text[end - 1 - length]) ++length;
    if (length > best.length) best = {next, length};
    if (length == kMostLength) break;
  }
  return best.length < kLeastLength ? Match{} : best;
}

void NgramLookup::continue_from(const Match& match, std::span<const int32_t> text,
                                std::span<int32_t> out) {
  const size_t period = text.size() - match.next;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = i < period ? text[match.next + i] : out[i - period];
  }
}

}  // namespace vesper
