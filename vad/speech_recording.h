// What is spoken of a recording: its stretches of speech, and their rows of the log-mel
// spectrogram.
//
// 16 kHz samples go in, to the spectrogram and to voice activity alike; called by the programs and
// the C API, which give what comes out to the decoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "audio/mel.h"
#include "vad/silero_vad.h"
#include "vad/speech_spans.h"

namespace vesper {

struct SpeechRecording {
  MelSpectrogram mel;                // of the stretches alone, one behind the other
  std::vector<FrameSpan> spans;      // those, in frames of the recording
  double duration_s;                 // of the recording
  std::vector<float> probabilities;  // of speech, of the whole recording (SileroVad)
};

// Hands on a recording, 16 kHz mono, block by block.
using ForEachBlock = std::function<void(const std::function<void(const float*, size_t)>& take)>;

// Listens to a recording, for whose log-mel there is an empty spectrogram. `clips_s`: start, end,
// start, ... in seconds, to which the stretches are cut; none: all is looked at. Throws
// Error(kUsage) for settings that make no sense, and what for_each_block throws.
SpeechRecording keep_speech(const ForEachBlock& for_each_block, MelSpectrogram mel, SileroVad& vad,
                            const SpeechSettings& settings, std::span<const double> clips_s = {});

}  // namespace vesper
