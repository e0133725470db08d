// Loudness of a recording per frame, and its pauses: to cut audio that is known to be speech. vad/
// finds speech.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "audio/mel/mel.h"

namespace vesper {

// The mean log10 mel energy of each frame of [begin, end), 10 ms each, with the clamp of a window.
std::vector<float> loudness_of(const MelSpectrogram& mel, uint64_t begin, uint64_t end);

// Which frames are quiet compared with those within about ten seconds.
std::vector<bool> quiet_frames(std::span<const float> loudness);

// The first frame after the last sound above the quiet frames; 0 if there is none, or all is about
// equally loud.
size_t end_of_sound(std::span<const float> loudness);

}  // namespace vesper
