#include "vad/extract_speech.h"

#include <utility>

#include "audio/block_worker.h"

namespace vesper {

ExtractedSpeech detect_speech(SampleReader blocks, MelSpectrogram mel, SileroVad& vad,
                              const SpeechSettings& settings, std::span<const double> clips_s,
                              const std::function<void(double)>& on_progress) {
  vad.finish();  // drops the rest of a recording that failed
  uint64_t n_samples = 0;
  // Each of the three takes about as long: to read, to transform, and to listen for speech.
  BlockWorker transform([&](auto block) { mel.push(block.data(), block.size()); });
  BlockWorker listen([&](auto block) { vad.push(block.data(), block.size()); });
  for (auto block = blocks.next(); !block.empty(); block = blocks.next()) {
    transform.push(block);
    listen.push(block);
    n_samples += block.size();
    if (on_progress) on_progress(blocks.progress());
  }
  transform.finish();
  listen.finish();
  mel.finish();
  const uint64_t n_frames = mel.content_frames();
  std::vector<float> probabilities = vad.finish();
  std::vector<SpeechSegment> segments = within_clips(
      frames_of(find_speech(probabilities, n_samples, settings), n_frames), clips_s, n_frames);
  return {std::move(mel), std::move(segments), static_cast<double>(n_frames) / kMelFramesPerSecond,
          std::move(probabilities)};
}

ExtractedSpeech extract_speech(SampleReader reader, MelSpectrogram mel, SileroVad& vad,
                               const SpeechSettings& settings, std::span<const double> clips_s,
                               const std::function<void(double)>& on_progress) {
  ExtractedSpeech speech =
      detect_speech(std::move(reader), std::move(mel), vad, settings, clips_s, on_progress);
  std::vector<std::pair<size_t, size_t>> kept;
  for (const SpeechSegment& segment : speech.segments)
    kept.emplace_back(segment.begin, segment.end);
  speech.mel.keep(kept);
  return speech;
}

}  // namespace vesper
