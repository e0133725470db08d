// Cuts speech into stretches that can be transcribed by themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vad/speech_spans.h"

namespace vesper {

// Cuts what was kept of a recording, its stretches of speech one behind the other, into `n` parts
// or fewer, each cut in the longest silence near where equal parts would end; no part is much
// shorter than 30 s. `probabilities` are those of the recording (SileroVad). The parts are frames
// of what was kept, [0, its length) without a gap.
std::vector<FrameSpan> cut_at_silences(std::span<const float> probabilities,
                                       std::span<const FrameSpan> kept, uint64_t n);

}  // namespace vesper
