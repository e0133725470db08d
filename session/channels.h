// Recordings whose channels mean something: each transcribed by itself, or used to tell two
// speakers apart.
#pragma once

#include <functional>

#include "audio/input.h"
#include "decoder/transcript/transcript.h"

namespace vesper {

// What becomes of a recording's channels.
enum class Channels {
  kMix,      // their mean, or the one that AudioInput::reader names, is transcribed
  kSplit,    // each is transcribed by itself
  kDiarize,  // the mean is transcribed, and the louder of two channels says who speaks
};

using OnSegment = std::function<void(const Segment& segment)>;
using OnProgress = std::function<void(double done_s, double total_s)>;
// Transcribes one channel, or the mean of all.
using TranscribeOne = std::function<Transcript(AudioReader reader, const OnSegment& on_segment,
                                               const OnProgress& on_progress)>;

// With kSplit segments have their channel and come in the order of their beginnings, as soon as no
// earlier one can follow: while the last channel is transcribed. The transcript's language is that
// of the channel with the most text. With kDiarize segments and words have a speaker: "0", "1", or
// "?" where neither channel is clearly louder. Throws what `transcribe` throws, and Error(kInput)
// for a recording with more than 32 channels to split, or with other than two to tell speakers by.
Transcript transcribe_channels(const AudioInput& input, Channels channels,
                               const TranscribeOne& transcribe, const OnSegment& on_segment,
                               const OnProgress& on_progress);

}  // namespace vesper
