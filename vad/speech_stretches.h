// Cuts speech into stretches that can be transcribed by themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vad/speech_spans.h"

namespace vesper {

// A part of what was kept of a recording, in frames: [begin, end), silent from `speech_end` on.
struct SpeechPart {
  uint64_t begin = 0, end = 0, speech_end = 0;
  bool operator==(const SpeechPart&) const = default;
};

// Cuts what was kept of a recording, its stretches of speech one behind the other, into parts of at
// most `longest` frames: where it is silent, the longer the better, and into few. `probabilities`
// are those of the recording (SileroVad). Where nothing is silent for so long, a part ends where
// speech is least probable. The parts are frames of what was kept, [0, its length) without a gap.
std::vector<SpeechPart> cut_at_silences(std::span<const float> probabilities,
                                        std::span<const FrameSpan> kept, uint64_t longest);

}  // namespace vesper
