// Cuts speech into segments that are transcribed independently, in a batch.
//
// In: the probabilities of speech of a recording and its kept segments. Out: segments of at most
// one audio window each. Called by the sessions for decoder/windows/batch_transcriber.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vad/speech_segments.h"

namespace vesper {

// Cuts the kept segments of a recording, which lie one behind the other, into segments of at most
// `longest` frames. Cuts are in silences, long ones first, and as few as possible; where there is
// no silence for `longest` frames, where speech is least probable. `probabilities` are those of the
// recording (SileroVad). The result covers the frames of the kept audio, [0, its length), without a
// gap, and says where the speech of each segment ends.
std::vector<SpeechSegment> cut_at_silences(std::span<const float> probabilities,
                                           std::span<const SpeechSegment> kept, uint64_t longest);

}  // namespace vesper
