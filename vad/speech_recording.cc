#include "vad/speech_recording.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vesper {
namespace {

// What of the stretches lies within the clips; no clips: all.
std::vector<FrameSpan> within_clips(std::vector<FrameSpan> spans, std::span<const double> clips_s,
                                    uint64_t n_frames) {
  if (clips_s.empty()) return spans;
  const auto frame = [&](size_t i) {
    if (i >= clips_s.size()) return n_frames;
    const double at = std::min(clips_s[i] * kMelFramesPerSecond, static_cast<double>(n_frames));
    return static_cast<uint64_t>(std::llround(at));
  };
  std::vector<FrameSpan> cut;
  for (size_t clip = 0; clip < clips_s.size(); clip += 2) {
    for (const FrameSpan& span : spans) {
      const FrameSpan part{std::max(span.begin, frame(clip)), std::min(span.end, frame(clip + 1))};
      if (part.begin < part.end) cut.push_back(part);
    }
  }
  return cut;
}

}  // namespace

SpeechRecording keep_speech(const ForEachBlock& for_each_block, MelSpectrogram mel, SileroVad& vad,
                            const SpeechSettings& settings, std::span<const double> clips_s) {
  vad.finish();  // what a recording that could not be read to its end has left
  uint64_t n_samples = 0;
  for_each_block([&](const float* samples, size_t n) {
    mel.push(samples, n);
    vad.push(samples, n);
    n_samples += n;
  });
  mel.finish();
  const uint64_t n_frames = mel.content_frames();
  std::vector<float> probabilities = vad.finish();
  std::vector<FrameSpan> spans = within_clips(
      frames_of(find_speech(probabilities, n_samples, settings), n_frames), clips_s, n_frames);
  std::vector<std::pair<size_t, size_t>> kept;
  for (const FrameSpan& span : spans) kept.emplace_back(span.begin, span.end);
  mel.keep(kept);
  return {std::move(mel), std::move(spans), static_cast<double>(n_frames) / kMelFramesPerSecond,
          std::move(probabilities)};
}

}  // namespace vesper
