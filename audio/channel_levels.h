// Which of two channels is the louder one, and when: who speaks, where each speaker has a channel.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "audio/reader.h"

namespace vesper {

class ChannelLevels {
 public:
  // Reads the recording to its end. Throws Error(kInput) unless it has two channels.
  explicit ChannelLevels(AudioReader reader);

  // 0 or 1: the channel whose sum of magnitudes between these times is more than 1.1 times that of
  // the other one, the rule of whisper.cpp's --diarize; nothing if neither is.
  std::optional<int> louder(double start_s, double end_s) const;

 private:
  // Sums of magnitudes from the start to the beginning of each span of 10 ms, [n_spans + 1].
  std::vector<std::array<double, 2>> before_;
};

}  // namespace vesper
