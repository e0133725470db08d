#include "decoder/windows/loudness.h"

#include <algorithm>

namespace vesper {
namespace {

// Quiet is below this share of the range between the 5% and 95% quantiles of a block of frames and
// its neighbours.
constexpr double kQuietShare = 0.25;
constexpr size_t kBlock = 1000;
// Speech exceeds its pauses by more than this (log10 energy), steady noise by far less.
constexpr float kRange = 0.7f;

// The quantile of the values.
float quantile(std::vector<float> values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

}  // namespace

std::vector<float> loudness_of(const MelSpectrogram& mel, uint64_t begin, uint64_t end) {
  constexpr float kClamp = 8;  // MelSpectrogram::window
  const float lowest = mel.maximum() - kClamp;
  const auto n_mels = static_cast<size_t>(mel.n_mels());
  std::vector<float> loudness, rows(kBlock * n_mels);
  for (uint64_t frame = begin; frame < end; frame += kBlock) {
    const size_t n = std::min<uint64_t>(kBlock, end - frame);
    mel.log_mel(frame, n, rows.data());
    for (size_t r = 0; r < n; ++r) {
      double sum = 0;
      for (size_t i = 0; i < n_mels; ++i) sum += std::max(rows[r * n_mels + i], lowest);
      loudness.push_back(static_cast<float>(sum / static_cast<double>(n_mels)));
    }
  }
  return loudness;
}

std::vector<bool> quiet_frames(std::span<const float> loudness) {
  std::vector<bool> is_quiet(loudness.size());
  for (size_t block = 0; block < loudness.size(); block += kBlock) {
    const size_t begin = block - std::min(block, kBlock);
    const size_t end = std::min(loudness.size(), block + 2 * kBlock);
    const std::vector<float> around(loudness.begin() + static_cast<std::ptrdiff_t>(begin),
                                    loudness.begin() + static_cast<std::ptrdiff_t>(end));
    const double low = quantile(around, 0.05), high = quantile(around, 0.95);
    const double limit = low + kQuietShare * (high - low);
    for (size_t i = block; i < std::min(block + kBlock, loudness.size()); ++i) {
      is_quiet[i] = high > low && loudness[i] < limit;
    }
  }
  return is_quiet;
}

size_t end_of_sound(std::span<const float> loudness) {
  // Most frames of 0.2 s: not a click.
  constexpr size_t kFrames = 20, kLoud = 12;
  if (loudness.size() < kFrames) return 0;
  const std::vector<float> all(loudness.begin(), loudness.end());
  if (quantile(all, 0.95) - quantile(all, 0.05) < kRange) return 0;
  const std::vector<bool> is_quiet = quiet_frames(loudness);
  for (size_t end = loudness.size(); end >= kFrames; --end) {
    const auto last = is_quiet.begin() + static_cast<std::ptrdiff_t>(end);
    if (!last[-1] && std::count(last - kFrames, last, false) >= std::ptrdiff_t{kLoud}) return end;
  }
  return 0;
}

}  // namespace vesper
