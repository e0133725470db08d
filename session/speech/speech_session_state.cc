#include "session/speech/speech_session_state.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <string>
#include <tuple>
#include <utility>

#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/weights/weight_provider.h"
#include "vad/speech_cutting.h"

namespace vesper {
namespace {

// Speech of a syllable or more. Measured: 254 of 255 clips of speech have that much, and 1 of 63 of
// music and sounds (docs/measurements/speech-corpus.md).
constexpr SpeechSettings kAnySpeech{.neg_threshold = {},
                                    .min_speech_duration_ms = 100,
                                    .min_silence_duration_ms = 100,
                                    .speech_pad_ms = 0};

// Maps times in the extracted speech to times in the recording.
class SpeechMap {
 public:
  SpeechMap(const ExtractedSpeech& kept, double pad_s)
      : timeline_(kept.segments), duration_s_(kept.duration_s), pad_s_(pad_s) {}

  Segment segment(Segment segment) const {
    segment.seek =
        std::lround(timeline_.start_s(static_cast<double>(segment.seek) / kMelFramesPerSecond) *
                    kMelFramesPerSecond);
    // Keep the segment's start and end equal to those of its first and last word.
    const bool from_first = !segment.words.empty() && segment.start_s == segment.words[0].start_s;
    const bool to_last = !segment.words.empty() && segment.end_s == segment.words.back().end_s;
    std::tie(segment.start_s, segment.end_s) =
        timeline_.of_text(segment.start_s, segment.end_s, pad_s_);
    for (Word& word : segment.words) {
      std::tie(word.start_s, word.end_s) = timeline_.within_one(word.start_s, word.end_s, pad_s_);
    }
    if (from_first) segment.start_s = segment.words.front().start_s;
    if (to_last) segment.end_s = segment.words.back().end_s;
    return segment;
  }

  Transcript transcript(Transcript transcript) const {
    transcript.duration_s = duration_s_;
    for (Segment& segment : transcript.segments) segment = this->segment(std::move(segment));
    for (DroppedSpan& span : transcript.dropped) {
      span.start_s = timeline_.start_s(span.start_s);
      span.end_s = timeline_.end_s(span.end_s);
    }
    return transcript;
  }

  OnSegment on_segment(OnSegment to) const {
    return [map = *this, to = std::move(to)](const Segment& segment) { to(map.segment(segment)); };
  }
  OnProgress on_progress(OnProgress to) const {
    return [map = *this, to = std::move(to)](double done_s, double total_s) {
      to(done_s < total_s ? map.timeline_.start_s(done_s) : map.duration_s_, map.duration_s_);
    };
  }

 private:
  SpeechTimeline timeline_;
  double duration_s_, pad_s_;
};

SpeechMap map_of(const ExtractedSpeech& kept, const SpeechOptions& speech) {
  return {kept, speech.vad->speech_pad_ms / 1000};
}

std::vector<SpeechSegment> whole(const ExtractedSpeech& read) {
  return {{0, read.mel.content_frames()}};
}

// A job whose windows are decoded in batches with windows of other jobs. After it is cancelled,
// only on_failure is called.
struct BatchJob {
  explicit BatchJob(SpeechJob given) : job(std::move(given)) {}

  void segment(const Segment& segment) {
    if (goes_on()) on_segment(segment);
  }
  void progress(double done_s, double total_s) {
    if (goes_on() && job.events.on_progress) job.events.on_progress(done_s, total_s);
  }
  void end(const Transcript& transcript) {
    if (goes_on()) {
      if (job.on_done) job.on_done(transcript);
      return;
    }
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& why) {
      if (job.on_failure) job.on_failure(why);
    }
  }

  bool is_cancelled() {
    if (error) return true;
    try {
      check_cancelled(job.events);
    } catch (const Error&) {
      error = std::current_exception();
    }
    return error != nullptr;
  }

  const SpeechJob job;
  const OnSegment on_segment = segment_event(job.events);
  std::exception_ptr error;  // why it failed

 private:
  bool goes_on() {
    if (!std::exchange(is_started_, true) && job.on_start) job.on_start();
    return !is_cancelled();
  }

  bool is_started_ = false;
};

const SpeechSessionOptions& checked(const SpeechSessionOptions& options) {
  check_options(options);
  return options;
}

WhisperModel open_model(std::shared_ptr<const WeightProvider> weights,
                        const SpeechSessionOptions& wanted, std::unique_ptr<Device> device) {
  // Windows that are encoded at once: at most a quarter of the batch, so that those that wait
  // take little more memory.
  const uint32_t n_encoded =
      std::clamp(wanted.batch_size / 4, 1u, device->info().policy.encoded_windows);
  return WhisperModel(change_weights(std::move(weights), wanted.weights, wanted.threads),
                      std::move(device), parse_compute(wanted.compute), wanted.batch_size,
                      wanted.max_candidates, n_encoded, wanted.kv_type);
}

}  // namespace

void check_cancelled(const SpeechEvents& events) {
  if (events.is_cancelled && events.is_cancelled()) throw_stopped();
}

OnSegment segment_event(const SpeechEvents& events) {
  return [&events](const Segment& segment) {
    if (segment.id == 0 && events.on_language) {
      events.on_language(segment.language, segment.language_probability);
    }
    if (events.on_segment) events.on_segment(segment);
  };
}

OnProgress progress_event(const SpeechEvents& events) {
  return [&events](double done_s, double total_s) {
    check_cancelled(events);
    if (events.on_progress) events.on_progress(done_s, total_s);
  };
}

DecodingSettings without_clips(DecodingSettings settings) {
  settings.clip_timestamps.clear();
  return settings;
}

SpeechSession::State::State(std::shared_ptr<const WeightProvider> weights,
                            const SpeechSessionOptions& wanted)
    : State(std::move(weights), checked(wanted),
            open_device(wanted.device, DeviceOptions{.n_threads = wanted.threads,
                                                     .opens_beside = wanted.batch_size > 1})) {}

SpeechSession::State::State(std::shared_ptr<const WeightProvider> weights,
                            const SpeechSessionOptions& wanted, std::unique_ptr<Device> device)
    : options(wanted), model(open_model(std::move(weights), wanted, std::move(device))) {
  vad = open_vad(options.vad_model);
}

std::unique_ptr<SileroVad> SpeechSession::State::open_vad(const std::filesystem::path& path) {
  if (path.empty()) return nullptr;
  if (!vad_device) vad_device = model.device().open_beside();
  return std::make_unique<SileroVad>(vad_device ? *vad_device : model.device(), path);
}

void SpeechSession::State::check(const SpeechOptions& speech, SpeechTask task) const {
  check_options(speech, task);
  if (speech.vad && !vad)
    throw Error(ErrorKind::kUsage, "vad", "expected a VAD model to be loaded, found none");
  const uint32_t n_candidates = most_candidates(speech.decoding);
  if (n_candidates > options.max_candidates) {
    const bool is_beams = speech.decoding.beam_size == n_candidates;
    throw Error(ErrorKind::kUsage, is_beams ? "beam size" : "best of",
                "expected at most " + std::to_string(options.max_candidates) +
                    ", the session's max candidates, found " + std::to_string(n_candidates));
  }
}

MelSpectrogram SpeechSession::State::empty_mel() const {
  return MelSpectrogram(static_cast<int>(model.n_mels()), model.mel_filters());
}

MelSpectrogram SpeechSession::State::log_mel(SampleReader reader,
                                             const std::function<void(double)>& on_progress) const {
  return read_log_mel(std::move(reader), static_cast<int>(model.n_mels()), model.mel_filters(),
                      on_progress);
}

ExtractedSpeech SpeechSession::State::read_recording(
    SampleReader reader, const SpeechOptions& speech,
    const std::function<void(double)>& on_progress) {
  if (speech.vad) {
    return extract_speech(std::move(reader), empty_mel(), *vad, *speech.vad,
                          speech.decoding.clip_timestamps, on_progress);
  }
  if (asks_vad(speech)) {
    return detect_speech(std::move(reader), empty_mel(), *vad, kAnySpeech, {}, on_progress);
  }
  MelSpectrogram mel = log_mel(std::move(reader), on_progress);
  const double duration_s = static_cast<double>(mel.content_frames()) / kMelFramesPerSecond;
  return {std::move(mel), {}, duration_s, {}};
}

ExtractedSpeech SpeechSession::State::read_recording(SampleReader reader,
                                                     const SpeechOptions& speech,
                                                     const SpeechEvents& events) {
  return read_recording(std::move(reader), speech, [&](double) { check_cancelled(events); });
}

ExtractFrom SpeechSession::State::extract_from(const SpeechOptions& of_call) {
  return [&](std::vector<OpenRecording> recordings, const std::function<void()>& check_wanted) {
    const auto options_of = [&](const OpenRecording& recording) -> const SpeechOptions& {
      return recording.options ? *recording.options : of_call;
    };
    for (const OpenRecording& recording : recordings) check(options_of(recording));
    if (recordings.size() > 1 && std::ranges::all_of(recordings, [&](const auto& recording) {
          return options_of(recording).vad.has_value();
        })) {
      std::vector<RecordingToExtract> together;
      for (OpenRecording& recording : recordings) {
        const SpeechOptions& own = options_of(recording);
        together.push_back({std::move(recording.reader), *own.vad, own.decoding.clip_timestamps});
      }
      return extract_speech_together(
          std::move(together), [this] { return empty_mel(); }, *vad, check_wanted);
    }
    std::vector<ExtractedSpeech> extracted;
    for (OpenRecording& recording : recordings) {
      extracted.push_back(read_recording(std::move(recording.reader), options_of(recording),
                                         [&](double) { check_wanted(); }));
    }
    return extracted;
  };
}

FindSpeech SpeechSession::State::speech_finder(const SpeechOptions& speech) {
  if (!asks_vad(speech)) return {};
  return [this](std::span<const float> samples) {
    vad->finish();
    vad->push(samples.data(), samples.size());
    return frames_of(vesper::find_speech(vad->finish(), samples.size(), kAnySpeech),
                     samples.size() / kMelHop);
  };
}

std::vector<SpeechSegment> SpeechSession::State::segments_of(const ExtractedSpeech& kept) const {
  // Frames. Whisper often leaves the last sentence of a full window to the next one.
  constexpr uint64_t kRoom = 400;
  return cut_at_silences(kept.probabilities, kept.segments, model.n_frames() - kRoom);
}

std::optional<std::vector<SpeechSegment>> SpeechSession::State::speech_of(
    const ExtractedSpeech& read, const SpeechOptions& speech) const {
  return asks_vad(speech) ? std::optional(read.segments) : std::nullopt;
}

Transcript SpeechSession::State::transcribe_reader(SampleReader reader, const SpeechOptions& speech,
                                                   const SpeechEvents& events,
                                                   const OnSegment& on_segment,
                                                   const OnProgress& on_progress) {
  const ExtractedSpeech read = read_recording(std::move(reader), speech, events);
  if (!speech.vad) {
    return transcribe_recording(model, read.mel, speech.decoding, on_segment, on_progress,
                                speech_of(read, speech));
  }
  const DecodingSettings settings = without_clips(speech.decoding);
  const SpeechMap map = map_of(read, speech);
  return map.transcript(
      options.batch_size > 1
          ? transcribe_segments(model, read.mel, segments_of(read), settings,
                                map.on_segment(on_segment), map.on_progress(on_progress))
          : transcribe_recording(model, read.mel, settings, map.on_segment(on_segment),
                                 map.on_progress(on_progress), whole(read)));
}

BatchRecording SpeechSession::State::batch_recording(OpenedJob opened,
                                                     const SpeechOptions& of_call) {
  auto shared = std::make_shared<BatchJob>(std::move(opened.job));
  const auto& own = shared->job.options;
  const SpeechOptions& speech = own ? *own : of_call;
  BatchRecording recording;
  std::shared_ptr<ExtractedSpeech> read;
  try {
    if (own) {
      check(*own);
      recording.windows = std::make_shared<WindowDecoder>(model, own->decoding);
    }
    const SpeechEvents& events = shared->job.events;
    read = std::make_shared<ExtractedSpeech>(
        opened.speech   ? opened.speech->get([&] { check_cancelled(events); })
        : opened.reader ? read_recording(std::move(*opened.reader), speech, events)
                        : read_recording(open_audio(shared->job.input), speech, events));
  } catch (const std::exception&) {
    // There is nothing to decode. on_failure is called when its turn comes.
    shared->error = std::current_exception();
    auto nothing = std::make_shared<MelSpectrogram>(empty_mel());
    nothing->finish();
    recording.mel = std::move(nothing);
    recording.on_end = [shared](const Transcript&) { shared->end({}); };
    return recording;
  }
  recording.mel = {read, &read->mel};
  recording.is_cancelled = [shared] { return shared->is_cancelled(); };
  recording.on_segment = [shared](const Segment& segment) { shared->segment(segment); };
  recording.on_progress = [shared](double done_s, double total_s) {
    shared->progress(done_s, total_s);
  };
  recording.on_end = [shared](const Transcript& transcript) { shared->end(transcript); };
  if (!speech.vad) {
    recording.parts = whole(*read);
    recording.speech = speech_of(*read, speech);
    return recording;
  }
  recording.speech = recording.parts = segments_of(*read);
  const SpeechMap map = map_of(*read, speech);
  recording.on_segment = map.on_segment(std::move(recording.on_segment));
  recording.on_progress = map.on_progress(std::move(recording.on_progress));
  recording.on_end = [map, end = std::move(recording.on_end)](Transcript transcript) {
    end(map.transcript(std::move(transcript)));
  };
  return recording;
}

}  // namespace vesper
