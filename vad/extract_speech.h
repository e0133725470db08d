// Extracts the speech of a recording.
//
// In: a recording. Out: the log-mel of its speech segments, joined without gaps, and the segments.
// Called by the sessions, which give the log-mel to the decoder and map its times back
// (SpeechTimeline in vad/speech_segments.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "audio/mel/mel.h"
#include "audio/samples.h"
#include "vad/silero_vad.h"
#include "vad/speech_segments.h"

namespace vesper {

struct ExtractedSpeech {
  MelSpectrogram mel;                   // of the joined segments, [n_frames, n_mels]
  std::vector<SpeechSegment> segments;  // in frames of the recording
  double duration_s;                    // of the recording
  std::vector<float> probabilities;     // of speech, for the whole recording (SileroVad)
};

// `mel` is empty and has the model's filters. `clips_s` is start, end, start, ... in seconds;
// segments are limited to them; empty: the whole recording. `on_progress`, if given, is called
// after each block with SampleReader::progress(). Throws Error(kUsage) for settings out of range,
// and the errors of AudioReader::read.
ExtractedSpeech extract_speech(SampleReader reader, MelSpectrogram mel, SileroVad& vad,
                               const SpeechSettings& settings, std::span<const double> clips_s = {},
                               const std::function<void(double)>& on_progress = {});

struct RecordingToExtract {
  SampleReader reader;
  const SpeechSettings& settings;
  std::span<const double> clips_s;  // as in extract_speech()
};
// extract_speech() for up to vad.n_together() short recordings, whose samples are in memory
// meanwhile. They are read on several threads, which call `check` before each, and their
// probabilities of speech are computed side by side. An error of one is thrown for all.
std::vector<ExtractedSpeech> extract_speech_together(
    std::vector<RecordingToExtract> recordings, const std::function<MelSpectrogram()>& empty_mel,
    SileroVad& vad, const std::function<void()>& check);

// extract_speech(), but `mel` is of the whole recording.
ExtractedSpeech detect_speech(SampleReader reader, MelSpectrogram mel, SileroVad& vad,
                              const SpeechSettings& settings, std::span<const double> clips_s = {},
                              const std::function<void(double)>& on_progress = {});

}  // namespace vesper
