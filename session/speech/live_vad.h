// Voice activity of a live stream. In: 16 kHz samples as they come. Out: the probability of speech
// of every 32 ms, for vad/speech_turns.h. Used by the server, beside a session that transcribes.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace vesper {

// Takes the next samples, [n], 16 kHz mono, and returns the probability of each chunk of
// SileroVad::kChunkSamples that is complete now. Throws Error(kDevice).
using LiveVad = std::function<std::vector<float>(std::span<const float> samples)>;

// A Silero VAD model on one thread of the CPU, so that it does not wait for the device of a
// session. Throws Error(kModel) and Error(kDevice). Each stream needs one of its own.
LiveVad open_live_vad(const std::filesystem::path& model);

}  // namespace vesper
