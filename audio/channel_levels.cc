#include "audio/channel_levels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "error/error.h"

namespace vesper {
namespace {

constexpr int64_t kSpansPerSecond = 100;
constexpr double kClearlyLouder = 1.1;

}  // namespace

ChannelLevels::ChannelLevels(AudioReader reader) : before_{{0, 0}} {
  if (reader.channels() != 2) {
    throw Error(ErrorKind::kInput, reader.name() + " has " + std::to_string(reader.channels()) +
                                       (reader.channels() == 1 ? " channel" : " channels") +
                                       ", expected two, one for each speaker");
  }
  constexpr size_t kBlockFrames = 4096;
  std::vector<float> block(kBlockFrames * 2);
  std::array<double, 2> sums{};
  int64_t n_frames = 0;
  const int64_t rate = reader.sample_rate_hz();
  for (size_t got = kBlockFrames; got == kBlockFrames;) {
    got = reader.read_interleaved(block.data(), kBlockFrames);
    for (size_t i = 0; i < got; ++i) {
      for (size_t c : {0, 1}) sums[c] += std::fabs(block[2 * i + c]);
      ++n_frames;
      const auto n_spans = static_cast<int64_t>(before_.size());
      if (n_frames * kSpansPerSecond >= n_spans * rate) before_.push_back(sums);
    }
  }
  before_.push_back(sums);
}

std::optional<int> ChannelLevels::louder(double start_s, double end_s) const {
  const auto at = [&](double seconds) {
    const double last = static_cast<double>(before_.size() - 1);
    return before_[static_cast<size_t>(
        std::lround(std::clamp(seconds * kSpansPerSecond, 0.0, last)))];
  };
  if (!(start_s < end_s)) return std::nullopt;
  const std::array<double, 2> from = at(start_s), to = at(end_s);
  const double first = to[0] - from[0], second = to[1] - from[1];
  if (first > kClearlyLouder * second) return 0;
  if (second > kClearlyLouder * first) return 1;
  return std::nullopt;
}

}  // namespace vesper
