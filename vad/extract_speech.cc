#include "vad/extract_speech.h"

#include <optional>
#include <utility>

#include "audio/block_worker.h"
#include "error/tasks.h"

namespace vesper {
namespace {

// The speech segments of a recording of `n_samples` with this log-mel.
ExtractedSpeech segmented(MelSpectrogram mel, std::vector<float> probabilities, uint64_t n_samples,
                          const SpeechSettings& settings, std::span<const double> clips_s) {
  const uint64_t n_frames = mel.content_frames();
  std::vector<SpeechSegment> segments = within_clips(
      frames_of(find_speech(probabilities, n_samples, settings), n_frames), clips_s, n_frames);
  return {std::move(mel), std::move(segments), static_cast<double>(n_frames) / kMelFramesPerSecond,
          std::move(probabilities)};
}

void keep_segments(ExtractedSpeech& speech) {
  std::vector<std::pair<size_t, size_t>> kept;
  for (const SpeechSegment& segment : speech.segments) {
    kept.emplace_back(segment.begin, segment.end);
  }
  speech.mel.keep(kept);
}

}  // namespace

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
  return segmented(std::move(mel), vad.finish(), n_samples, settings, clips_s);
}

ExtractedSpeech extract_speech(SampleReader reader, MelSpectrogram mel, SileroVad& vad,
                               const SpeechSettings& settings, std::span<const double> clips_s,
                               const std::function<void(double)>& on_progress) {
  ExtractedSpeech speech =
      detect_speech(std::move(reader), std::move(mel), vad, settings, clips_s, on_progress);
  keep_segments(speech);
  return speech;
}

std::vector<ExtractedSpeech> extract_speech_together(
    std::vector<RecordingToExtract> recordings, const std::function<MelSpectrogram()>& empty_mel,
    SileroVad& vad, const std::function<void()>& check) {
  const size_t n = recordings.size();
  std::vector<std::vector<float>> samples(n);
  std::vector<std::optional<MelSpectrogram>> mels(n);
  run_tasks(n, /*n_threads=*/0, [&](size_t i) {
    check();
    samples[i] = read_samples(std::move(recordings[i].reader));
    mels[i] = empty_mel();
    mels[i]->push(samples[i].data(), samples[i].size());
    mels[i]->finish();
  });
  std::vector<std::vector<float>> probabilities = vad.of_recordings(samples);
  std::vector<ExtractedSpeech> extracted;
  for (size_t i = 0; i < n; ++i) {
    extracted.push_back(segmented(*std::move(mels[i]), std::move(probabilities[i]),
                                  samples[i].size(), recordings[i].settings,
                                  recordings[i].clips_s));
    keep_segments(extracted.back());
  }
  return extracted;
}

}  // namespace vesper
