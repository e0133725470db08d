// Extracts the speech of a recording.
//
// In: a recording. Out: the log-mel of the speech segments alone, one behind the
// other, and where the segments are. Called by the sessions, which give the log-mel to the decoder
// and map its times back (SpeechTimeline in vad/speech_segments.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "audio/mel.h"
#include "audio/reader.h"
#include "vad/silero_vad.h"
#include "vad/speech_segments.h"

namespace vesper {

struct ExtractedSpeech {
  MelSpectrogram mel;                   // of the segments alone, one behind the other
  std::vector<SpeechSegment> segments;  // in frames of the recording
  double duration_s;                    // of the recording
  std::vector<float> probabilities;     // of speech, of the whole recording (SileroVad)
};

// `mel` is empty and has the model's filters. `clips_s`: start, end, start, ... in seconds;
// segments are cut to them; empty: the whole recording. `on_progress`, if given, is called after
// each block with SampleReader::progress(). Throws Error(kUsage) for settings out of range, and
// what AudioReader::read throws.
ExtractedSpeech extract_speech(AudioReader reader, MelSpectrogram mel, SileroVad& vad,
                               const SpeechSettings& settings, std::span<const double> clips_s = {},
                               const std::function<void(double)>& on_progress = {});

}  // namespace vesper
