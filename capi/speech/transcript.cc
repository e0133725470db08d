#include "capi/speech/transcript.h"

#include <optional>
#include <utility>

#include "capi/options.h"
#include "capi/speech/transcribe_options.h"
#include "decoder/transcript/text_lines.h"
#include "decoder/transcript/writers.h"
#include "error/bounds.h"
#include "error/error.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace capi = vesper::capi;

namespace vesper::capi {
namespace {

vesper_format_options default_format_options() {
  vesper_format_options options{};
  options.size = sizeof options;
  return options;
}

std::optional<uint32_t> limit(const char* setting, uint32_t value) {
  check_bounds(setting, Bounds<uint32_t>{0, 1000}, value);
  return value == 0 ? std::nullopt : std::optional(value);
}

TranscriptFormat parse_format(const char* format) {
  const std::vector<TranscriptFormat> formats = parse_formats(required("format", format));
  if (formats.size() != 1) {
    throw ArgumentError("format", "expected one format, found '" + std::string(format) + "'");
  }
  return formats.front();
}

std::string formatted(const Transcript& transcript, TranscriptFormat format,
                      const vesper_format_options& given) {
  WriterOptions options;
  options.subtitles = {.max_line_width = limit("max line width", given.max_line_width),
                       .max_line_count = limit("max line count", given.max_line_count),
                       .max_words_per_line = limit("max words per line", given.max_words_per_line),
                       .highlight_words = given.highlight_words != 0};
  check_setting(!options.subtitles.max_line_count || options.subtitles.max_line_width,
                "max line count", "a max line width");
  options.colors = given.colors != 0;
  std::string text;
  const auto writer = make_writer(
      format, [&](std::string_view lines) { text += lines; }, options);
  writer->begin({given.file ? given.file : "", given.model ? given.model : ""});
  for (const Segment& segment : transcript.segments) writer->segment(segment);
  writer->end(transcript);
  return text;
}

// What `get` returns for an open transcript, which several threads may read.
template <class Result, class Get>
Result read(const char* function, const vesper_transcript* transcript, Result otherwise,
            const Get& get) {
  return guarded_value(function, transcript, otherwise,
                       [&] { return get(*find_object("transcript", transcript)); });
}

}  // namespace

SegmentView::SegmentView(Segment segment) : segment_(std::move(segment)), view_{} {
  segment_.text = valid_utf8(segment_.text);
  for (Word& word : segment_.words) {
    word.text = valid_utf8(word.text);
    words_.push_back({.start_s = word.start_s,
                      .end_s = word.end_s,
                      .text = word.text.c_str(),
                      .probability = word.probability,
                      .speaker = word.speaker.c_str()});
  }
  view_ = {.id = segment_.id,
           .seek = segment_.seek,
           .start_s = segment_.start_s,
           .end_s = segment_.end_s,
           .text = segment_.text.c_str(),
           .language = segment_.language.c_str(),
           .speaker = segment_.speaker.c_str(),
           .channel = segment_.channel,
           .avg_logprob = segment_.avg_logprob,
           .no_speech_prob = segment_.no_speech_prob,
           .compression_ratio = segment_.compression_ratio,
           .temperature = segment_.temperature,
           .tokens = segment_.tokens.data(),
           .n_tokens = segment_.tokens.size(),
           .words = words_.data(),
           .n_words = words_.size()};
}

OnSegment segment_event(vesper_on_segment on_segment, void* user) {
  if (!on_segment) return {};
  return [on_segment, user](const Segment& segment) {
    if (on_segment(SegmentView(segment).get(), user) != 0) throw_stopped();
  };
}

}  // namespace vesper::capi

vesper_transcript::vesper_transcript(vesper::Transcript result)
    : Object(kKind), transcript(std::move(result)) {
  std::string joined;
  for (const vesper::Segment& segment : transcript.segments) {
    joined += segment.text;
    segments.emplace_back(segment);
  }
  text = vesper::trimmed(vesper::valid_utf8(joined));
}

extern "C" {

void vesper_transcript_free(vesper_transcript* transcript) {
  capi::close_object(__func__, "transcript", transcript);
}

const char* vesper_transcript_text(const vesper_transcript* transcript) {
  return capi::read(__func__, transcript, "", [](const auto& open) { return open.text.c_str(); });
}

const char* vesper_transcript_language(const vesper_transcript* transcript) {
  return capi::read(__func__, transcript, "",
                    [](const auto& open) { return open.transcript.language.c_str(); });
}

double vesper_transcript_language_probability(const vesper_transcript* transcript) {
  return capi::read(__func__, transcript, 0.0,
                    [](const auto& open) { return open.transcript.language_probability; });
}

double vesper_transcript_duration_s(const vesper_transcript* transcript) {
  return capi::read(__func__, transcript, 0.0,
                    [](const auto& open) { return open.transcript.duration_s; });
}

size_t vesper_transcript_n_segments(const vesper_transcript* transcript) {
  return capi::read(__func__, transcript, size_t{0},
                    [](const auto& open) { return open.segments.size(); });
}

const vesper_segment* vesper_transcript_segment(const vesper_transcript* transcript, size_t index) {
  return capi::read(__func__, transcript, static_cast<const vesper_segment*>(nullptr),
                    [&](const auto& open) {
                      return index < open.segments.size() ? open.segments[index].get() : nullptr;
                    });
}

void vesper_format_options_init(vesper_format_options* options, size_t size) {
  capi::init_options(__func__, options, size, capi::default_format_options);
}

vesper_status vesper_transcript_format(const vesper_transcript* transcript, const char* format,
                                       const vesper_format_options* options, char** text) {
  if (text) *text = nullptr;
  return capi::guarded(__func__, transcript, [&] {
    const auto open = capi::find_object("transcript", transcript);
    capi::required("text", text);
    *text = capi::copied_string(
        capi::formatted(open->transcript, capi::parse_format(format),
                        capi::read_options("options", options, capi::default_format_options())));
  });
}

}  // extern "C"
