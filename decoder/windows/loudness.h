// How loud a recording is from frame to frame, and where it pauses: enough to cut sound that is
// known to be speech. What is speech is vad/'s to tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "audio/mel.h"

namespace vesper {

// The mean log10 mel energy of each frame of [begin, end), 10 ms each; what a window would be
// clamped to is the least.
std::vector<float> loudness_of(const MelSpectrogram& mel, uint64_t begin, uint64_t end);

// Which frames are quiet beside those within some ten seconds of them.
std::vector<bool> quiet_frames(std::span<const float> loudness);

// The first frame after the last sound that rises out of what is quiet; 0 if there is none, or if
// all is about as loud.
size_t end_of_sound(std::span<const float> loudness);

}  // namespace vesper
