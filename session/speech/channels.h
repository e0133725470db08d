// Recordings with meaningful channels: each is transcribed separately, or they tell two speakers
// apart.
#pragma once

#include <functional>

#include "audio/samples.h"
#include "audio/sources/input.h"
#include "decoder/transcript/transcript.h"

namespace vesper {

// Use of a recording's channels.
enum class Channels {
  kMix,      // transcribe their mean, or the channel in AudioInput::reader
  kSplit,    // transcribe each separately
  kDiarize,  // transcribe the mean; the louder of two channels is the speaker
};

using OnSegment = std::function<void(const Segment& segment)>;
using OnProgress = std::function<void(double done_s, double total_s)>;
// Transcribes one channel, or the mean of all.
using TranscribeOne = std::function<Transcript(SampleReader reader, const OnSegment& on_segment,
                                               const OnProgress& on_progress)>;

// With kSplit, segments have their channel and are emitted in the order of their starts, while the
// last channel is transcribed. The transcript has the language of the channel with the most text.
// With kDiarize, segments and words have a speaker: "0", "1", or "?" if neither channel is clearly
// louder. Throws the errors of `transcribe`, and Error(kInput) for more than 32 channels to split,
// or not two channels to diarize.
Transcript transcribe_channels(const AudioInput& input, Channels channels,
                               const TranscribeOne& transcribe, const OnSegment& on_segment,
                               const OnProgress& on_progress);

}  // namespace vesper
