// SpeechStream: samples from the caller, with captions while they come or a transcript at the end.
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "audio/resample.h"
#include "error/error.h"
#include "session/speech/speech_session.h"
#include "session/speech/speech_session_state.h"

namespace vesper {

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
