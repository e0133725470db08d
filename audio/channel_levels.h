// The louder one of two channels over time, to tell speakers apart who have a channel each.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "audio/sources/reader.h"

namespace vesper {

class ChannelLevels {
 public:
  // Reads the whole recording. Throws Error(kInput) unless it has two channels.
  explicit ChannelLevels(AudioReader reader);

  // 0 or 1: the channel whose sum of magnitudes between these times is more than 1.1 times the
  //   other's, as in whisper.cpp's --diarize; empty if neither is.
  std::optional<int> louder(double start_s, double end_s) const;

 private:
  // Sums of magnitudes from the start to each multiple of 10 ms, [n + 1].
  std::vector<std::array<double, 2>> before_;
};

}  // namespace vesper
