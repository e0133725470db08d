#include "session/speech/speech_session.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "audio/resample.h"
#include "audio/samples.h"
#include "decoder/whisper_model.h"
#include "decoder/windows/batch_transcriber.h"
#include "decoder/windows/live/live_transcriber.h"
#include "decoder/windows/recording_transcriber.h"
#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/weights/weight_provider.h"
#include "session/speech/job_queue.h"
#include "vad/extract_speech.h"
#include "vad/silero_vad.h"
#include "vad/speech_cutting.h"

namespace vesper {
namespace {

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

// Every transcriber reports its progress between windows.
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

}  // namespace

struct SpeechSession::State {
  State(std::shared_ptr<const WeightProvider> weights, const SpeechSessionOptions& wanted)
      : State(std::move(weights), checked(wanted),
              open_device(wanted.device, DeviceOptions{.n_threads = wanted.threads,
                                                       .opens_beside = wanted.batch_size > 1})) {}

  State(std::shared_ptr<const WeightProvider> weights, const SpeechSessionOptions& wanted,
        std::unique_ptr<Device> device)
      : options(wanted), model(open_model(std::move(weights), wanted, std::move(device))) {
    vad = open_vad(options.vad_model);
  }

  static WhisperModel open_model(std::shared_ptr<const WeightProvider> weights,
                                 const SpeechSessionOptions& wanted,
                                 std::unique_ptr<Device> device) {
    // Windows that are encoded at once: at most a quarter of the batch, so that those that wait
    // take little more memory.
    const uint32_t n_encoded =
        std::clamp(wanted.batch_size / 4, 1u, device->info().policy.encoded_windows);
    return WhisperModel(change_weights(std::move(weights), wanted.weights, wanted.threads),
                        std::move(device), parse_compute(wanted.compute), wanted.batch_size,
                        wanted.max_candidates, n_encoded, wanted.kv_type);
  }

  // Null if `path` is empty.
  std::unique_ptr<SileroVad> open_vad(const std::filesystem::path& path) {
    if (path.empty()) return nullptr;
    if (!vad_device) vad_device = model.device().open_beside();
    return std::make_unique<SileroVad>(vad_device ? *vad_device : model.device(), path);
  }

  static const SpeechSessionOptions& checked(const SpeechSessionOptions& options) {
    check_options(options);
    return options;
  }

  void check(const SpeechOptions& speech, SpeechTask task = SpeechTask::kTranscribe) const {
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

  MelSpectrogram empty_mel() const {
    return MelSpectrogram(static_cast<int>(model.n_mels()), model.mel_filters());
  }

  MelSpectrogram log_mel(SampleReader reader,
                         const std::function<void(double)>& on_progress) const {
    return read_log_mel(std::move(reader), static_cast<int>(model.n_mels()), model.mel_filters(),
                        on_progress);
  }

  // Reads what is decoded of a recording: with SpeechOptions::vad its speech, within the clips if
  // there are any; without it the whole recording, with its speech segments if the VAD model is
  // asked.
  ExtractedSpeech read_recording(SampleReader reader, const SpeechOptions& speech,
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
  ExtractedSpeech read_recording(SampleReader reader, const SpeechOptions& speech,
                                 const SpeechEvents& events) {
    return read_recording(std::move(reader), speech, [&](double) { check_cancelled(events); });
  }

  // For the thread of a JobQueue, which `of_call` outlives.
  ExtractFrom extract_from(const SpeechOptions& of_call) {
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

  // Whether the VAD model decides if speech is in doubt.
  bool asks_vad(const SpeechOptions& speech) const { return vad && speech.decoding.policy.ask_vad; }

  // Finds speech in the windows of a live stream.
  FindSpeech speech_finder(const SpeechOptions& speech) {
    if (!asks_vad(speech)) return {};
    return [this](std::span<const float> samples) {
      vad->finish();
      vad->push(samples.data(), samples.size());
      return frames_of(vesper::find_speech(vad->finish(), samples.size(), kAnySpeech),
                       samples.size() / kMelHop);
    };
  }

  static SpeechMap map_of(const ExtractedSpeech& kept, const SpeechOptions& speech) {
    return {kept, speech.vad->speech_pad_ms / 1000};
  }

  // The speech segments that are decoded in batches.
  std::vector<SpeechSegment> segments_of(const ExtractedSpeech& kept) const {
    // Frames. Whisper often leaves the last sentence of a full window to the next one.
    constexpr uint64_t kRoom = 400;
    return cut_at_silences(kept.probabilities, kept.segments, model.n_frames() - kRoom);
  }

  Transcript transcribe_reader(SampleReader reader, const SpeechOptions& speech,
                               const SpeechEvents& events, const OnSegment& on_segment,
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

  static std::vector<SpeechSegment> whole(const ExtractedSpeech& read) {
    return {{0, read.mel.content_frames()}};
  }
  // The speech in a recording that is decoded whole, if the VAD model is asked.
  std::optional<std::vector<SpeechSegment>> speech_of(const ExtractedSpeech& read,
                                                      const SpeechOptions& speech) const {
    return asks_vad(speech) ? std::optional(read.segments) : std::nullopt;
  }

  BatchRecording batch_recording(OpenedJob opened, const SpeechOptions& of_call) {
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

  SpeechSessionOptions options;
  WhisperModel model;
  // Of the VAD model, if it can work beside the other model: null otherwise.
  std::unique_ptr<Device> vad_device;
  std::unique_ptr<SileroVad> vad;
};

SpeechSession::SpeechSession(const std::filesystem::path& model,
                             const SpeechSessionOptions& options)
    : SpeechSession(open_weights(model), options) {}

SpeechSession::SpeechSession(std::shared_ptr<const WeightProvider> weights,
                             const SpeechSessionOptions& options)
    : state_(std::make_unique<State>(std::move(weights), options)) {}

SpeechSession::~SpeechSession() = default;

void SpeechSession::load_vad(const std::filesystem::path& model) {
  state_->vad = state_->open_vad(model);
}

std::string SpeechSession::description() const {
  return engine_text(state_->model.device().info(), compute_name(state_->model.compute()));
}

bool SpeechSession::is_multilingual() const { return state_->model.tokens().is_multilingual; }

Transcript SpeechSession::transcribe(const AudioInput& input, const SpeechOptions& options,
                                     const SpeechEvents& events) {
  state_->check(options);
  check_samples(input);
  if (input.samples && input.samples->interleaved.empty()) return {};
  const auto one = [&](SampleReader reader, const OnSegment& on_segment,
                       const OnProgress& on_progress) {
    return state_->transcribe_reader(std::move(reader), options, events, on_segment, on_progress);
  };
  return transcribe_channels(input, options.channels, one, segment_event(events),
                             progress_event(events));
}

void SpeechSession::transcribe_many(const std::function<std::optional<SpeechJob>()>& next,
                                    const SpeechOptions& options, const ManyOptions& many) {
  state_->check(options);
  const bool is_mixed = options.channels == Channels::kMix;
  // Without VAD the clips of a recording follow one another: there is previous text.
  const bool in_batches = state_->options.batch_size > 1 && is_mixed &&
                          (options.vad || options.decoding.clip_timestamps.empty());
  // Another thread may use the VAD model only if that has a device of its own.
  const bool extracts_ahead = in_batches && (state_->vad_device || !state_->vad);
  JobQueue jobs(next, many.in_order, extracts_ahead ? state_->extract_from(options) : ExtractFrom(),
                extracts_ahead && state_->vad ? state_->vad->n_together() : 1);
  if (in_batches) {
    const auto next_recording = [&]() -> std::optional<BatchRecording> {
      std::optional<OpenedJob> job = jobs.take();
      if (!job) return std::nullopt;
      auto recording = state_->batch_recording(std::move(*job), options);
      jobs.read_ahead();
      return recording;
    };
    return transcribe_batch(state_->model, without_clips(options.decoding), next_recording,
                            {.is_ready = [&] { return jobs.is_ready(); },
                             .in_order = many.in_order,
                             .on_round = many.on_round});
  }
  while (std::optional<OpenedJob> opened = jobs.take()) {
    const SpeechJob& job = opened->job;
    const SpeechOptions& own = job.options ? *job.options : options;
    if (job.on_start) job.on_start();
    SpeechEvents events = job.events;
    // The first progress comes when this recording has been read.
    events.on_progress = [&](double done_s, double total_s) {
      if (is_mixed) jobs.read_ahead();
      if (job.events.on_progress) job.events.on_progress(done_s, total_s);
    };
    Transcript transcript;
    try {
      if (opened->reader) {
        state_->check(own);
        transcript = state_->transcribe_reader(std::move(*opened->reader), own, events,
                                               segment_event(events), progress_event(events));
      } else {
        transcript = transcribe(job.input, own, events);
      }
    } catch (const std::exception& error) {
      if (job.on_failure) job.on_failure(error);
      continue;
    }
    if (job.on_done) job.on_done(transcript);
  }
}

LiveTranscript SpeechSession::transcribe_live(const AudioInput& input, const SpeechOptions& options,
                                              const SpeechEvents& events, const LiveOptions& live) {
  state_->check(options, SpeechTask::kLiveCaptions);
  check_bounds("stream step", bounds::kStreamStep, live.step_s);
  LiveTranscriber transcriber(state_->model, options.decoding,
                              {events.on_final, events.on_partial, segment_event(events)},
                              state_->speech_finder(options));
  LiveSource source(open_audio(input), is_recorded(input));
  const LivePasses passes{.push =
                              [&](std::span<const float> samples) {
                                check_cancelled(events);
                                transcriber.push(samples.data(), samples.size());
                              },
                          .whole_windows = [&] { return transcriber.transcribe_whole_windows(); },
                          .beginning = [&] { transcriber.transcribe_beginning(); }};
  const std::exception_ptr error = follow(source, live, passes);
  check_cancelled(events);
  return {transcriber.finish(), error};
}

std::vector<LanguageProbability> SpeechSession::detect_languages(const AudioInput& input,
                                                                 const SpeechOptions& options,
                                                                 const SpeechEvents& events) {
  state_->check(options, SpeechTask::kDetectLanguage);
  check_samples(input);
  AudioReader reader = open_audio(input);
  if (options.vad) {
    const ExtractedSpeech kept = state_->read_recording(std::move(reader), options, events);
    return vesper::detect_languages(state_->model, kept.mel, without_clips(options.decoding));
  }
  const MelSpectrogram mel =
      state_->log_mel(std::move(reader), [&](double) { check_cancelled(events); });
  return vesper::detect_languages(state_->model, mel, options.decoding);
}

std::vector<TimeRange> SpeechSession::find_speech(const AudioInput& input,
                                                  const SpeechSettings& settings,
                                                  const SpeechEvents& events) {
  SpeechOptions options;
  options.vad = settings;
  state_->check(options);
  check_samples(input);
  if (input.samples && input.samples->interleaved.empty()) return {};
  SileroVad& vad = *state_->vad;
  vad.finish();  // forgets a recording that was cancelled
  SampleReader reader(open_audio(input));
  uint64_t n_samples = 0;
  for (auto block = reader.next(); !block.empty(); block = reader.next()) {
    check_cancelled(events);
    vad.push(block.data(), block.size());
    n_samples += block.size();
  }
  std::vector<TimeRange> ranges;
  for (const SampleRange& range : vesper::find_speech(vad.finish(), n_samples, settings)) {
    ranges.push_back({static_cast<double>(range.begin) / kSampleRateHz,
                      static_cast<double>(range.end) / kSampleRateHz});
  }
  return ranges;
}

// ---- A stream of samples from the caller

struct SpeechStream::State {
  struct Captions {
    Captions(SpeechSession::State& session, const State& stream, double step_s)
        : transcriber(
              session.model, stream.options.decoding,
              {stream.events.on_final, stream.events.on_partial, segment_event(stream.events)},
              session.speech_finder(stream.options)),
          resampler(static_cast<int>(stream.format.sample_rate_hz)),
          step(static_cast<size_t>(step_s * kSampleRateHz)) {}

    // Decodes the new samples in whole steps, so that the result does not depend on how they
    // arrived. If `is_rest`, also adds the remaining samples.
    void decode(bool is_rest, const std::function<void()>& check_stopped) {
      has_failed = true;  // if anything below throws
      std::span<const float> left = new_samples;
      for (; left.size() >= step; left = left.subspan(step)) {
        check_stopped();
        transcriber.push(left.data(), step);
        transcriber.transcribe_whole_windows();
        transcriber.transcribe_beginning();
      }
      if (is_rest) transcriber.push(left.data(), left.size());
      new_samples.erase(new_samples.begin(), new_samples.end() - std::ssize(left));
      has_failed = false;
    }

    LiveTranscriber transcriber;
    Resampler resampler;
    size_t step;                     // samples at 16 kHz
    std::vector<float> new_samples;  // 16 kHz mono, not decoded yet
    bool has_failed = false;         // the state of the transcriber is unknown
  };

  void check_usable() const {
    check_cancelled(events);
    if (captions && captions->has_failed) {
      throw Error(ErrorKind::kUsage, "the stream has failed; expected a new one");
    }
  }

  AudioInput input(std::span<const float> interleaved) const {
    return {.reader = reader, .samples = PcmSamples{interleaved, format}};
  }

  SpeechSession& session;
  PcmFormat format;
  SpeechOptions options;
  SpeechEvents events;
  ReaderOptions reader;
  std::unique_ptr<Captions> captions = {};  // absent: not wanted
  std::vector<float> samples = {};          // all samples, if captions are not wanted
};

SpeechStream SpeechSession::open_stream(const PcmFormat& format, const SpeechOptions& options,
                                        const SpeechEvents& events, std::optional<double> step_s,
                                        const ReaderOptions& reader) {
  state_->check(options, step_s ? SpeechTask::kLiveCaptions : SpeechTask::kTranscribe);
  if (step_s) check_bounds("stream step", bounds::kStreamStep, *step_s);
  check_format(format);
  std::unique_ptr<SpeechStream::State> stream(
      new SpeechStream::State{*this, format, options, events, {.channel = reader.channel}});
  if (step_s) {
    stream->captions = std::make_unique<SpeechStream::State::Captions>(*state_, *stream, *step_s);
  }
  return SpeechStream(std::move(stream));
}

SpeechStream::SpeechStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
SpeechStream::SpeechStream(SpeechStream&&) noexcept = default;
SpeechStream::~SpeechStream() = default;

void SpeechStream::push(std::span<const float> interleaved) {
  state_->check_usable();
  if (interleaved.empty()) return;
  AudioReader reader = open_audio(state_->input(interleaved));  // checks the samples
  std::vector<float> mono(interleaved.size() / state_->format.channels);
  reader.read(mono.data(), mono.size());
  if (!state_->captions) {
    state_->samples.insert(state_->samples.end(), interleaved.begin(), interleaved.end());
    return;
  }
  state_->captions->resampler.push(mono.data(), mono.size(), state_->captions->new_samples);
  state_->captions->decode(/*is_rest=*/false, [this] { check_cancelled(state_->events); });
}

Transcript SpeechStream::finish() {
  if (!state_->captions) {
    return state_->session.transcribe(state_->input(state_->samples), state_->options,
                                      state_->events);
  }
  state_->check_usable();
  state_->captions->resampler.finish(state_->captions->new_samples);
  state_->captions->decode(/*is_rest=*/true, [this] { check_cancelled(state_->events); });
  return state_->captions->transcriber.finish();
}

}  // namespace vesper
