// Streams of the C API: samples that the caller pushes.
#include <vesper/speech.h>

#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "capi/objects.h"
#include "capi/options.h"
#include "capi/speech/transcribe_options.h"
#include "capi/speech/transcript.h"
#include "capi/speech/whisper.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace capi = vesper::capi;

// Uses its model until it is finished or closed.
struct vesper_stream final : capi::Object {
  static constexpr std::string_view kKind = "a stream";
  vesper_stream(vesper_whisper* handle, uint32_t n_channels)
      : Object(kKind), whisper(std::in_place, "whisper", handle), channels(n_channels) {}

  std::optional<capi::Use<vesper_whisper>> whisper;
  std::optional<vesper::SpeechStream> stream;
  uint32_t channels;
};

namespace vesper::capi {
namespace {

using OnWords = void (*)(const vesper_caption_word* words, size_t n_words, double received_s,
                         void* user);

std::function<void(std::span<const CaptionWord>, double)> words_event(OnWords on_words,
                                                                      void* user) {
  if (!on_words) return {};
  return [on_words, user](std::span<const CaptionWord> words, double received_s) {
    std::vector<std::string> texts;
    for (const CaptionWord& word : words) texts.push_back(valid_utf8(word.text));
    std::vector<vesper_caption_word> views;
    for (size_t i = 0; i < words.size(); ++i) {
      views.push_back({.start_s = words[i].start_s,
                       .end_s = words[i].end_s,
                       .text = texts[i].c_str(),
                       .opens_segment = words[i].opens_segment ? 1 : 0,
                       .probability = words[i].probability});
    }
    on_words(views.data(), views.size(), received_s, user);
  };
}

vesper_stream_options default_stream_options() {
  vesper_stream_options options{};
  options.size = sizeof options;
  options.step_s = std::nan("");
  return options;
}

SpeechStream open_stream(vesper_stream& stream, uint32_t sample_rate_hz,
                         const vesper_transcribe_options* options,
                         const vesper_stream_options* stream_options) {
  const SpeechCall call(options);
  const vesper_stream_options given =
      read_options("stream_options", stream_options, default_stream_options());
  SpeechEvents events = call.events;
  events.on_segment = segment_event(given.on_segment, given.user);
  events.on_final = words_event(given.on_final, given.user);
  events.on_partial = words_event(given.on_partial, given.user);
  return (*stream.whisper)
      ->session.open_stream(
          {.sample_rate_hz = sample_rate_hz, .channels = stream.channels}, call.speech, events,
          std::isnan(given.step_s) ? std::nullopt : std::optional(given.step_s), call.reader);
}

SpeechStream& unfinished(vesper_stream& stream) {
  if (!stream.stream) {
    throw ArgumentError("stream", "expected one that is not finished, found a finished one");
  }
  return *stream.stream;
}

}  // namespace
}  // namespace vesper::capi

extern "C" {

void vesper_stream_options_init(vesper_stream_options* options, size_t size) {
  capi::init_options(__func__, options, size, capi::default_stream_options);
}

vesper_status vesper_stream_open(vesper_whisper* whisper, uint32_t sample_rate_hz,
                                 uint32_t channels, const vesper_transcribe_options* options,
                                 const vesper_stream_options* stream_options,
                                 vesper_stream** stream) {
  if (stream) *stream = nullptr;
  return capi::guarded(__func__, whisper, [&] {
    capi::required("stream", stream);
    const auto opened = std::make_shared<vesper_stream>(whisper, channels);
    opened->stream.emplace(capi::open_stream(*opened, sample_rate_hz, options, stream_options));
    *stream = capi::add_object(opened);
  });
}

vesper_status vesper_stream_push(vesper_stream* stream, const float* samples, size_t n_frames) {
  return capi::guarded(__func__, stream, [&] {
    const capi::Use use("stream", stream);
    capi::unfinished(*use).push(
        capi::samples_argument("samples", samples, n_frames, use->channels));
  });
}

vesper_status vesper_stream_finish(vesper_stream* stream, vesper_transcript** transcript) {
  if (transcript) *transcript = nullptr;
  return capi::guarded(__func__, stream, [&] {
    const capi::Use use("stream", stream);
    vesper::SpeechStream finishing = std::move(capi::unfinished(*use));
    use->stream.reset();
    struct Release {
      vesper_stream& stream;
      ~Release() { stream.whisper.reset(); }
    } const release{*use};
    vesper::Transcript result = finishing.finish();
    if (transcript) {
      *transcript = capi::add_object(std::make_shared<vesper_transcript>(std::move(result)));
    }
  });
}

void vesper_stream_close(vesper_stream* stream) { capi::close_object(__func__, "stream", stream); }

}  // extern "C"
