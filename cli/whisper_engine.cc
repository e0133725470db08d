#include "cli/whisper_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "audio/recording.h"
#include "cli/live_source.h"
#include "decoder/live_transcriber.h"
#include "decoder/transcriber.h"
#include "decoder/whisper_model.h"
#include "vad/silero_vad.h"
#include "vad/speech_stretches.h"

namespace vesper {
namespace {

// What of the stretches lies within the clips (start, end, start, ... in seconds; no clips: all).
std::vector<FrameSpan> within_clips(const std::vector<FrameSpan>& spans,
                                    const std::vector<double>& clips_s, uint64_t n_frames) {
  if (clips_s.empty()) return spans;
  constexpr double kFramesPerSecond = 100;
  const auto frame = [&](size_t i) {
    if (i >= clips_s.size()) return n_frames;
    const double at = std::min(clips_s[i] * kFramesPerSecond, static_cast<double>(n_frames));
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

// From times within the kept stretches to times of the recording.
Segment in_recording(Segment segment, const SpeechTimeline& timeline, double pad_s) {
  constexpr double kFramesPerSecond = 100;
  segment.seek = std::lround(
      timeline.start_s(static_cast<double>(segment.seek) / kFramesPerSecond) * kFramesPerSecond);
  // A segment that ends with its words still does.
  const bool from_first = !segment.words.empty() && segment.start_s == segment.words[0].start_s;
  const bool to_last = !segment.words.empty() && segment.end_s == segment.words.back().end_s;
  segment.start_s = timeline.start_s(segment.start_s);
  segment.end_s = timeline.end_s(segment.end_s);
  for (Word& word : segment.words) {
    std::tie(word.start_s, word.end_s) = timeline.within_one(word.start_s, word.end_s, pad_s);
  }
  if (from_first) segment.start_s = segment.words.front().start_s;
  if (to_last) segment.end_s = segment.words.back().end_s;
  return segment;
}

class WhisperEngine final : public TranscriptionEngine {
 public:
  explicit WhisperEngine(const EngineSettings& settings)
      : model_(settings.model,
               open_device(settings.device, DeviceOptions{.n_threads = settings.threads}),
               parse_compute(settings.compute), settings.batch_size, settings.n_candidates),
        transcriber_(model_),
        batch_size_(settings.batch_size) {
    if (!settings.vad) return;
    speech_settings_ = *settings.vad;
    vad_.emplace(model_.device(), settings.vad_model);
  }

  std::string description() const override {
    const DeviceInfo& device = model_.device().info();
    return device.kind + " (" + device.name + "), " + std::string(compute_name(model_.compute()));
  }

  Transcript transcribe(const AudioInput& input, const DecodingSettings& settings,
                        const OnSegment& on_segment, const OnProgress& on_progress) override {
    const auto one = [&](AudioReader reader, const OnSegment& to, const OnProgress& progress) {
      return transcribe_reader(std::move(reader), settings, to, progress);
    };
    return transcribe_channels(input, one, on_segment, on_progress);
  }

  Transcript caption(const AudioInput& input, const DecodingSettings& settings, double step_s,
                     const LiveEvents& events,
                     const std::function<void(double, double)>& on_slow) override {
    LiveTranscriber transcriber(model_, transcriber_, settings, events);
    LiveSource source(AudioReader(input.path, input.reader));
    const auto step = static_cast<size_t>(step_s * kSampleRateHz);
    while (true) {
      const std::vector<float> samples = source.take(step);
      if (samples.empty()) break;
      transcriber.push(samples.data(), samples.size());
      transcriber.transcribe_whole_windows();
      // More has come already: what is not recent needs no guess.
      if (source.waiting() >= step) continue;
      const auto start = std::chrono::steady_clock::now();
      transcriber.transcribe_beginning();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (took.count() > step_s) {
        on_slow(took.count(), static_cast<double>(source.waiting()) / kSampleRateHz);
      }
    }
    return transcriber.finish();
  }

  std::vector<LanguageProbability> detect_languages(const AudioInput& input,
                                                    const DecodingSettings& settings) override {
    AudioReader reader(input.path, input.reader);
    if (vad_) {
      DecodingSettings of_speech = settings;
      of_speech.clip_timestamps.clear();
      return transcriber_.detect_languages(
          read_speech(std::move(reader), settings.clip_timestamps).mel, of_speech);
    }
    const MelSpectrogram mel =
        read_log_mel(std::move(reader), static_cast<int>(model_.n_mels()), model_.mel_filters());
    return transcriber_.detect_languages(mel, settings);
  }

 private:
  Transcript transcribe_reader(AudioReader reader, const DecodingSettings& settings,
                               const OnSegment& on_segment, const OnProgress& on_progress) {
    if (vad_) return transcribe_speech(std::move(reader), settings, on_segment, on_progress);
    const MelSpectrogram mel =
        read_log_mel(std::move(reader), static_cast<int>(model_.n_mels()), model_.mel_filters());
    return transcriber_.transcribe(mel, settings, on_segment, on_progress);
  }

  // The stretches of speech within the clips, and their rows of the spectrogram.
  struct Speech {
    MelSpectrogram mel;
    std::vector<FrameSpan> spans;
    double duration_s;                 // of the recording
    std::vector<float> probabilities;  // of speech, of the whole recording (SileroVad)
  };
  Speech read_speech(AudioReader reader, const std::vector<double>& clips_s) {
    RecordingReader recording(std::move(reader));
    MelSpectrogram mel(static_cast<int>(model_.n_mels()), model_.mel_filters());
    std::vector<float> block(size_t{1} << 14);
    vad_->finish();  // what a recording that could not be read to its end has left
    uint64_t n_samples = 0;
    for (size_t got = block.size(); got == block.size(); n_samples += got) {
      got = recording.read(block.data(), block.size());
      mel.push(block.data(), got);
      vad_->push(block.data(), got);
    }
    mel.finish();
    constexpr double kFramesPerSecond = 100;
    const double duration_s = static_cast<double>(mel.content_frames()) / kFramesPerSecond;
    std::vector<float> probabilities = vad_->finish();
    std::vector<FrameSpan> speech = within_clips(
        frames_of(find_speech(probabilities, n_samples, speech_settings_), mel.content_frames()),
        clips_s, mel.content_frames());
    std::vector<std::pair<size_t, size_t>> kept;
    for (const FrameSpan& span : speech) kept.emplace_back(span.begin, span.end);
    mel.keep(kept);
    return {std::move(mel), std::move(speech), duration_s, std::move(probabilities)};
  }

  // The same of the stretches of speech alone, put one behind the other.
  Transcript transcribe_speech(AudioReader reader, const DecodingSettings& settings,
                               const OnSegment& on_segment, const OnProgress& on_progress) {
    Speech kept = read_speech(std::move(reader), settings.clip_timestamps);
    DecodingSettings of_speech = settings;
    of_speech.clip_timestamps.clear();
    const double duration_s = kept.duration_s;
    const SpeechTimeline timeline(kept.spans);
    const double pad_s = speech_settings_.speech_pad_ms / 1000;
    const auto take_segment = [&](const Segment& segment) {
      if (on_segment) on_segment(in_recording(segment, timeline, pad_s));
    };
    const auto take_progress = [&](double done_s, double total_s) {
      if (!on_progress) return;
      on_progress(done_s < total_s ? timeline.start_s(done_s) : duration_s, duration_s);
    };
    Transcript transcript;
    if (batch_size_ > 1) {
      // A model tends to leave a sentence that ends near the end of its window for the next one.
      constexpr uint64_t kRoom = 400;
      std::vector<MelSpan> stretches;
      for (const SpeechPart& part :
           cut_at_silences(kept.probabilities, kept.spans, model_.n_frames() - kRoom)) {
        stretches.push_back({part.begin, part.end, part.speech_end});
      }
      transcript = transcriber_.transcribe_stretches(kept.mel, stretches, of_speech, take_segment,
                                                     take_progress);
    } else {
      transcript = transcriber_.transcribe(kept.mel, of_speech, take_segment, take_progress);
    }
    transcript.duration_s = duration_s;
    for (Segment& segment : transcript.segments) segment = in_recording(segment, timeline, pad_s);
    for (DroppedSpan& span : transcript.dropped) {
      span.start_s = timeline.start_s(span.start_s);
      span.end_s = timeline.end_s(span.end_s);
    }
    return transcript;
  }

  WhisperModel model_;
  Transcriber transcriber_;
  unsigned batch_size_;  // above 1: so many stretches are transcribed together
  std::optional<SileroVad> vad_;
  SpeechSettings speech_settings_;
};

}  // namespace

std::unique_ptr<TranscriptionEngine> load_whisper_engine(const EngineSettings& settings) {
  return std::make_unique<WhisperEngine>(settings);
}

}  // namespace vesper
