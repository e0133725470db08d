#include "serve/live/live_messages.h"

#include <algorithm>
#include <cmath>

#include "llm/tokenizer/unicode/utf8_stream.h"
#include "serve/api/api_error.h"
#include "serve/api/request_fields.h"
#include "session/bounds.h"

namespace vesper {
namespace {

// Times have milliseconds; more digits are rounding errors.
double rounded(double seconds) { return std::round(seconds * 1000) / 1000; }

ReaderOptions audio_format(RequestFields& fields) {
  const std::string format = fields.text("format").value_or("pcm16");
  if (format == "webm" || format == "ogg") {
    fields.allow_only("sample_rate", {});
    fields.allow_only("channels", {});
    return {.is_live_container = true};
  }
  if (format != "pcm16" && format != "f32") {
    throw_field("format", "pcm16, f32, webm or ogg", '"' + format.substr(0, 80) + '"');
  }
  // More channels than a microphone array has are a mistake, and take memory.
  constexpr int64_t kMostChannels = 16;
  constexpr int64_t kDefaultRateHz = 16000;
  RawPcm raw;
  raw.encoding = format == "f32" ? RawPcm::Encoding::kF32Le : RawPcm::Encoding::kS16Le;
  raw.sample_rate_hz = static_cast<uint32_t>(
      fields.integer("sample_rate", AudioReader::kMinSampleRateHz, AudioReader::kMaxSampleRateHz)
          .value_or(kDefaultRateHz));
  raw.channels = static_cast<uint32_t>(fields.integer("channels", 1, kMostChannels).value_or(1));
  return {.raw = raw};
}

}  // namespace

LiveTurnSettings parse_live_start(std::string_view text) {
  const Json object = parse_json(text);
  RequestFields fields(object);
  LiveTurnSettings start;
  start.model = fields.text("model").value_or("");
  start.language = fields.text("language").value_or("auto");
  start.prompt = fields.text("prompt").value_or("");
  start.audio = audio_format(fields);
  start.step_s =
      fields.number("step", bounds::kStreamStep.low, bounds::kStreamStep.high).value_or(1);
  fields.check_all_used();
  return start;
}

void check_live_end(std::string_view text) {
  const Json object = parse_json(text);
  RequestFields fields(object);
  fields.allow_only("type", {"end"});
  fields.check_all_used();
}

std::string live_ready(const std::string& model) {
  return Json{{"type", "ready"}, {"model", model}}.dump();
}

std::string live_words(std::string_view type, std::span<const CaptionWord> words,
                       double received_s) {
  std::string text;
  Json list = Json::array();
  for (const CaptionWord& word : words) {
    text += word.text;
    list.push_back({{"word", valid_utf8(word.text)},
                    {"start", rounded(word.start_s)},
                    {"end", rounded(std::max(word.start_s, word.end_s))},
                    {"opens_segment", word.opens_segment}});
  }
  return Json{{"type", type},
              {"text", valid_utf8(text)},
              {"words", std::move(list)},
              {"received_s", rounded(received_s)}}
      .dump();
}

std::string live_done(const Transcript& transcript) {
  std::string text;
  for (const Segment& segment : transcript.segments) text += segment.text;
  return Json{{"type", "done"},
              {"text", valid_utf8(text)},
              {"language", transcript.language.empty() ? Json(nullptr) : Json(transcript.language)},
              {"duration", rounded(transcript.duration_s)}}
      .dump();
}

std::string live_error(const std::exception& error) {
  Json body = Json::parse(error_body(as_api_error(error)));
  body["type"] = "error";
  return body.dump();
}

}  // namespace vesper
