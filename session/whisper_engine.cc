#include "session/whisper_engine.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "audio/recording.h"
#include "decoder/whisper_model.h"
#include "decoder/windows/batch_transcriber.h"
#include "decoder/windows/live_transcriber.h"
#include "decoder/windows/recording_transcriber.h"
#include "llm/devices/open_device.h"
#include "session/live_passes.h"
#include "session/live_source.h"
#include "vad/extract_speech.h"
#include "vad/silero_vad.h"
#include "vad/speech_cutting.h"

namespace vesper {
namespace {

// From times within the kept stretches to times of the recording.
Segment in_recording(Segment segment, const SpeechTimeline& timeline, double pad_s) {
  segment.seek =
      std::lround(timeline.start_s(static_cast<double>(segment.seek) / kMelFramesPerSecond) *
                  kMelFramesPerSecond);
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

  void transcribe_many(const NextJob& next, const DecodingSettings& settings) override {
    if (batch_size_ < 2) return TranscriptionEngine::transcribe_many(next, settings);
    transcribe_batch(model_, without_clips(settings), [&]() -> std::optional<BatchRecording> {
      std::optional<TranscriptionJob> job = next();
      if (!job) return std::nullopt;
      return batch_recording(std::move(*job), settings.clip_timestamps);
    });
  }

  Captions caption(const AudioInput& input, const DecodingSettings& settings,
                   const LiveOptions& options, const LiveEvents& events) override {
    LiveTranscriber transcriber(model_, settings, events);
    LiveSource source(AudioReader(input.path, input.reader));
    const LivePasses passes{.push =
                                [&](std::span<const float> samples) {
                                  transcriber.push(samples.data(), samples.size());
                                },
                            .whole_windows = [&] { return transcriber.transcribe_whole_windows(); },
                            .beginning = [&] { transcriber.transcribe_beginning(); }};
    const std::exception_ptr error = follow(source, options, passes);
    return {transcriber.finish(), error};
  }

  std::vector<LanguageProbability> detect_languages(const AudioInput& input,
                                                    const DecodingSettings& settings) override {
    AudioReader reader(input.path, input.reader);
    if (vad_) {
      DecodingSettings of_speech = settings;
      of_speech.clip_timestamps.clear();
      return vesper::detect_languages(
          model_, read_speech(std::move(reader), settings.clip_timestamps).mel, of_speech);
    }
    const MelSpectrogram mel =
        read_log_mel(std::move(reader), static_cast<int>(model_.n_mels()), model_.mel_filters());
    return vesper::detect_languages(model_, mel, settings);
  }

 private:
  Transcript transcribe_reader(AudioReader reader, const DecodingSettings& settings,
                               const OnSegment& on_segment, const OnProgress& on_progress) {
    if (vad_) return transcribe_speech(std::move(reader), settings, on_segment, on_progress);
    const MelSpectrogram mel =
        read_log_mel(std::move(reader), static_cast<int>(model_.n_mels()), model_.mel_filters());
    return transcribe_recording(model_, mel, settings, on_segment, on_progress);
  }

  // The stretches of speech within the clips.
  ExtractedSpeech read_speech(AudioReader reader, const std::vector<double>& clips_s) {
    RecordingReader recording(std::move(reader));
    return extract_speech([&](const auto& take) { recording.read_to_end(take); },
                          MelSpectrogram(static_cast<int>(model_.n_mels()), model_.mel_filters()),
                          *vad_, speech_settings_, clips_s);
  }

  // From what is said of the stretches of speech, one behind the other, to the whole recording.
  class Mapping {
   public:
    Mapping(const ExtractedSpeech& kept, double pad_s)
        : timeline_(kept.segments), duration_s_(kept.duration_s), pad_s_(pad_s) {}

    Segment segment(const Segment& segment) const {
      return in_recording(segment, timeline_, pad_s_);
    }
    void progress(double done_s, double total_s, const OnProgress& on_progress) const {
      if (!on_progress) return;
      on_progress(done_s < total_s ? timeline_.start_s(done_s) : duration_s_, duration_s_);
    }
    Transcript transcript(Transcript transcript) const {
      transcript.duration_s = duration_s_;
      for (Segment& segment : transcript.segments) segment = this->segment(segment);
      for (DroppedSpan& span : transcript.dropped) {
        span.start_s = timeline_.start_s(span.start_s);
        span.end_s = timeline_.end_s(span.end_s);
      }
      return transcript;
    }

   private:
    SpeechTimeline timeline_;
    double duration_s_, pad_s_;
  };

  Mapping mapping_of(const ExtractedSpeech& kept) const {
    return {kept, speech_settings_.speech_pad_ms / 1000};
  }

  // Parts that are decoded side by side.
  std::vector<SpeechSegment> segments_of(const ExtractedSpeech& kept) const {
    // A model tends to leave a sentence that ends near the end of its window for the next one.
    constexpr uint64_t kRoom = 400;
    return cut_at_silences(kept.probabilities, kept.segments, model_.n_frames() - kRoom);
  }

  static DecodingSettings without_clips(DecodingSettings settings) {
    settings.clip_timestamps.clear();
    return settings;
  }

  // Transcribes the stretches of speech alone, put one behind the other.
  Transcript transcribe_speech(AudioReader reader, const DecodingSettings& settings,
                               const OnSegment& on_segment, const OnProgress& on_progress) {
    const ExtractedSpeech kept = read_speech(std::move(reader), settings.clip_timestamps);
    const DecodingSettings of_speech = without_clips(settings);
    const Mapping mapping = mapping_of(kept);
    const auto take_segment = [&](const Segment& segment) {
      if (on_segment) on_segment(mapping.segment(segment));
    };
    const auto take_progress = [&](double done_s, double total_s) {
      mapping.progress(done_s, total_s, on_progress);
    };
    if (batch_size_ > 1) {
      return mapping.transcript(transcribe_segments(model_, kept.mel, segments_of(kept), of_speech,
                                                    take_segment, take_progress));
    }
    return mapping.transcript(
        transcribe_recording(model_, kept.mel, of_speech, take_segment, take_progress));
  }

  // A job as a part of a batch. Of one that cannot be read there is nothing to decode, and its end
  // is its failure.
  BatchRecording batch_recording(TranscriptionJob job, const std::vector<double>& clips_s) {
    try {
      auto kept = std::make_shared<ExtractedSpeech>(
          read_speech(AudioReader(job.input.path, job.input.reader), clips_s));
      const Mapping mapping = mapping_of(*kept);
      return {
          .mel = {kept, &kept->mel},
          .segments = segments_of(*kept),
          .on_segment = [mapping, to = std::move(job.on_segment)](
                            const Segment& segment) { to(mapping.segment(segment)); },
          .on_progress = [mapping, to = std::move(job.on_progress)](
                             double done_s,
                             double total_s) { mapping.progress(done_s, total_s, to); },
          .on_end = [mapping, to = std::move(job.on_done)](
                        Transcript transcript) { to(mapping.transcript(std::move(transcript))); }};
    } catch (const std::exception&) {
      auto nothing =
          std::make_shared<MelSpectrogram>(static_cast<int>(model_.n_mels()), model_.mel_filters());
      nothing->finish();
      return {.mel = std::move(nothing),
              .segments = {},
              .on_segment = {},
              .on_progress = {},
              .on_end = [error = std::current_exception(),
                         to = std::move(job.on_failure)](const Transcript&) {
                try {
                  std::rethrow_exception(error);
                } catch (const std::exception& why) {
                  to(why);
                }
              }};
    }
  }

  WhisperModel model_;
  unsigned batch_size_;  // above 1: so many stretches are transcribed together
  std::optional<SileroVad> vad_;
  SpeechSettings speech_settings_;
};

}  // namespace

std::unique_ptr<TranscriptionEngine> load_whisper_engine(const EngineSettings& settings) {
  return std::make_unique<WhisperEngine>(settings);
}

}  // namespace vesper
