// vesper_transcribe_options and vesper_pcm as the types of SpeechSession.
#pragma once

#include <vesper/speech.h>

#include <functional>

#include "audio/sources/input.h"
#include "session/speech/speech_session.h"

namespace vesper::capi {

// The options of a call.
struct SpeechCall {
  // `given` may be NULL. Throws ArgumentError, and Error(kUsage) for an unknown rule or an enum out
  // of range; the session checks the ranges of numbers.
  explicit SpeechCall(const vesper_transcribe_options* given);

  // With the channel, and the format of files without a header.
  AudioInput input(const char* path) const;
  // Throws ArgumentError unless the samples can be read.
  AudioInput input(const vesper_pcm* pcm) const;

  SpeechOptions speech;
  SpeechSettings vad;   // also if speech.vad is absent
  SpeechEvents events;  // is_cancelled, on_progress and on_language
  ReaderOptions reader;
};

// Throws ArgumentError for NULL instead of samples, and for more bytes than there are addresses.
std::span<const float> samples_argument(const char* argument, const float* samples, size_t n_frames,
                                        uint32_t channels);

}  // namespace vesper::capi
