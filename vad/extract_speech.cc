#include "vad/extract_speech.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vesper {
namespace {

// The parts of the segments that lie within the clips; no clips: all.
std::vector<SpeechSegment> within_clips(std::vector<SpeechSegment> segments,
                                        std::span<const double> clips_s, uint64_t n_frames) {
  if (clips_s.empty()) return segments;
  const auto frame = [&](size_t i) {
    if (i >= clips_s.size()) return n_frames;
    const double at = std::min(clips_s[i] * kMelFramesPerSecond, static_cast<double>(n_frames));
    return static_cast<uint64_t>(std::llround(at));
  };
  std::vector<SpeechSegment> cut;
  for (size_t clip = 0; clip < clips_s.size(); clip += 2) {
    for (const SpeechSegment& segment : segments) {
      const SpeechSegment within{std::max(segment.begin, frame(clip)),
                                 std::min(segment.end, frame(clip + 1))};
      if (within.begin < within.end) cut.push_back(within);
    }
  }
  return cut;
}

}  // namespace

ExtractedSpeech extract_speech(const ForEachBlock& for_each_block, MelSpectrogram mel,
                               SileroVad& vad, const SpeechSettings& settings,
                               std::span<const double> clips_s) {
  vad.finish();  // drops what a recording that failed left behind
  uint64_t n_samples = 0;
  for_each_block([&](const float* samples, size_t n) {
    mel.push(samples, n);
    vad.push(samples, n);
    n_samples += n;
  });
  mel.finish();
  const uint64_t n_frames = mel.content_frames();
  std::vector<float> probabilities = vad.finish();
  std::vector<SpeechSegment> segments = within_clips(
      frames_of(find_speech(probabilities, n_samples, settings), n_frames), clips_s, n_frames);
  std::vector<std::pair<size_t, size_t>> kept;
  for (const SpeechSegment& segment : segments) kept.emplace_back(segment.begin, segment.end);
  mel.keep(kept);
  return {std::move(mel), std::move(segments), static_cast<double>(n_frames) / kMelFramesPerSecond,
          std::move(probabilities)};
}

}  // namespace vesper
