// Cuts speech into segments that a batch transcribes independently.
//
// In: the speech probabilities of a recording and its kept segments. Out: segments of at most one
// audio window each. Called by the sessions for decoder/windows/batch_transcriber.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vad/speech_segments.h"

namespace vesper {

// Cuts the kept segments of a recording, joined without gaps, into segments of at most `longest`
// frames. Makes few cuts, in long silences. If `longest` frames have no silence, cuts where speech
// is least probable. `probabilities` are those of the recording (SileroVad). The result covers the
// frames of the joined segments without gaps and has the end of speech of each segment.
std::vector<SpeechSegment> cut_at_silences(std::span<const float> probabilities,
                                           std::span<const SpeechSegment> kept, uint64_t longest);

}  // namespace vesper
