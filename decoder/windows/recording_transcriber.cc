#include "decoder/windows/recording_transcriber.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

// Frames [begin, end).
struct Clip {
  uint64_t begin, end;
};

std::vector<Clip> clips_of(const std::vector<double>& seconds, uint64_t n_content) {
  const auto frame = [&](size_t i) {
    if (i >= seconds.size()) return i == 0 ? 0 : n_content;
    const double at = std::nearbyint(std::max(0.0, seconds[i]) / kFrameSeconds);
    return at < static_cast<double>(n_content) ? static_cast<uint64_t>(at) : n_content;
  };
  std::vector<Clip> clips;
  for (size_t i = 0; i == 0 || i < seconds.size(); i += 2) {
    clips.push_back({frame(i), frame(i + 1)});
  }
  return clips;
}

}  // namespace

std::vector<LanguageProbability> detect_languages(WhisperModel& model, const MelSpectrogram& mel,
                                                  const DecodingSettings& settings) {
  if (!model.tokens().is_multilingual) {
    throw Error(ErrorKind::kUsage, "the model knows English only: there is no language to detect");
  }
  const Clip clip = clips_of(settings.clip_timestamps, mel.content_frames()).front();
  LanguageVote vote(settings.language_detection_threshold);
  std::vector<float> window(size_t{model.n_frames()} * model.n_mels());
  MelFrames frames;
  frames.first_frame = clip.begin;
  frames.n_frames = model.n_frames();
  frames.end_frame = clip.end;
  for (uint32_t i = 0; i < settings.language_detection_segments; ++i) {
    mel.window(frames, window.data());
    model.encode(window.data());
    if (vote.add(model.decoder().language_probabilities())) break;
    frames.first_frame += model.n_frames();
    if (frames.first_frame >= clip.end) break;
  }
  return ranked_languages(vote.result());
}

RecordingWindows::RecordingWindows(const WindowDecoder& decoder, const MelSpectrogram& mel)
    : state(decoder.begin(mel.content_frames())),
      window(decoder.audio_window()),
      decoder_(decoder),
      mel_(mel) {
  const DecodingSettings& settings = decoder.settings();
  if (state.language_is_found || settings.language_detection_segments < 2) return;
  const LanguageProbability detected = detect_languages(decoder.model(), mel, settings).front();
  state.transcript.language = detected.language;
  state.transcript.language_probability = detected.probability;
  state.language_is_found = true;
}

bool RecordingWindows::read_next(WindowCursor& cursor, AudioWindow& next) {
  cursor.limit = cursor.end;
  if (decoder_.follows_languages()) follow_language(cursor);
  MelFrames frames;
  frames.first_frame = cursor.seek;
  frames.n_frames = decoder_.model().n_frames();
  frames.end_frame = cursor.limit;
  mel_.window(frames, next.log_mel.data());
  next.n_frames = cursor.n_frames(decoder_.model().n_frames());
  if (decoder_.is_uniform_silence(next)) {
    decoder_.skip(cursor);
    return false;
  }
  decoder_.amplify(next, mel_.maximum());
  return true;
}

bool RecordingWindows::encode_next(WindowCursor& cursor) {
  if (!read_next(cursor, window)) return false;
  decoder_.model().encode(window.log_mel.data());
  return true;
}

WindowResult RecordingWindows::decode(WindowCursor& cursor) {
  decoder_.detect_language(state, cursor);
  return decoder_.decode(state, cursor);
}

void RecordingWindows::follow_language(WindowCursor& cursor) {
  if (!languages_ || languages_->end() != cursor.end) {
    const auto detect = [this](uint64_t begin, uint64_t end) {
      MelFrames frames;
      frames.first_frame = begin;
      frames.n_frames = decoder_.model().n_frames();
      frames.end_frame = end;
      return decoder_.language_probabilities(mel_, frames, window);
    };
    languages_.emplace(mel_, cursor.seek, cursor.end,
                       decoder_.settings().language_detection_threshold, detect);
  }
  decoder_.follow_language(state, cursor, *languages_, cursor.seek);
}

Transcript transcribe_recording(WhisperModel& model, const MelSpectrogram& mel,
                                const DecodingSettings& settings, const EmitSegment& on_segment,
                                const ReportProgress& on_progress,
                                std::optional<std::vector<SpeechSegment>> speech) {
  const WindowDecoder decoder(model, settings);
  RecordingWindows recording(decoder, mel);
  recording.state.speech = std::move(speech);
  const double total_s = recording.state.transcript.duration_s;
  WindowCursor cursor = decoder.cursor(recording.state, 0, 0);
  for (const Clip& clip : clips_of(settings.clip_timestamps, mel.content_frames())) {
    cursor.seek = clip.begin;
    cursor.end = clip.end;
    while (!cursor.is_at_end()) {
      if (on_progress) on_progress(static_cast<double>(cursor.seek) * kFrameSeconds, total_s);
      if (!recording.encode_next(cursor)) continue;
      const WindowResult result = recording.decode(cursor);
      for (Segment& segment : decoder.advance(recording.state, cursor, result, 0)) {
        decoder.emit_segment(recording.state.transcript, std::move(segment), on_segment);
      }
    }
  }
  if (on_progress) on_progress(total_s, total_s);
  return decoder.finish(std::move(recording.state));
}

}  // namespace vesper
