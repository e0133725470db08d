#include "session/speech/speech_session.h"

#include <utility>
#include <vector>

#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/weights/weight_provider.h"
#include "session/speech/speech_session_state.h"
#include "vad/speech_segments.h"

namespace vesper {

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

}  // namespace vesper
