#include "serve/api/transcriptions.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <map>
#include <system_error>
#include <utility>

#include "decoder/transcript/writers.h"
#include "error/error.h"
#include "llm/tokenizer/whisper_tokens.h"
#include "serve/api/request_fields.h"
#include "serve/http/multipart.h"
#include "serve/models/model_registry.h"

namespace vesper {
namespace {

// An upload: its file, and its other fields, which may repeat ("timestamp_granularities[]").
struct Upload {
  std::shared_ptr<UniqueFd> file;
  std::multimap<std::string, std::string> fields;
};

Upload read_upload(const ApiRequest& request) {
  constexpr size_t kMostFieldBytes = 65536;
  Upload upload;
  std::string name, value;
  bool is_file = false;
  MultipartParser parser(request.exchange.header("Content-Type"),
                         {.on_part =
                              [&](const MultipartPart& part) {
                                name = part.name;
                                value.clear();
                                is_file = name == "file";
                                if (!is_file) return;
                                if (upload.file) throw_field("file", "one file", "two");
                                upload.file = std::make_shared<UniqueFd>(open_unlinked_file());
                                if (!upload.file->is_open()) {
                                  throw ApiError(500, "cannot create a temporary file: " +
                                                          std::generic_category().message(errno));
                                }
                              },
                          .on_data =
                              [&](std::string_view data) {
                                if (!is_file) {
                                  value += data;
                                  if (value.size() > kMostFieldBytes) {
                                    throw_field(name.substr(0, 64), "at most 65536 bytes", "more");
                                  }
                                  return;
                                }
                                const bool is_written =
                                    do_all(data.size(), [&](size_t done, size_t left) {
                                      return ::write(upload.file->get(), data.data() + done, left);
                                    });
                                if (!is_written) {
                                  throw ApiError(507, "cannot store the upload: " +
                                                          std::generic_category().message(errno));
                                }
                              },
                          .on_part_end =
                              [&] {
                                if (!is_file) upload.fields.emplace(name, value);
                              }});
  request.exchange.read_body(request.limits.max_upload_bytes,
                             [&](std::string_view bytes) { parser.push(bytes); });
  parser.finish();
  if (!upload.file) throw_field("file", "a recording", "nothing");
  return upload;
}

// The fields of an upload. Each is read once.
class UploadFields {
 public:
  explicit UploadFields(std::multimap<std::string, std::string> fields)
      : fields_(std::move(fields)) {}

  std::optional<std::string> text(const std::string& name) {
    const auto [begin, end] = fields_.equal_range(name);
    if (begin == end) return std::nullopt;
    if (std::next(begin) != end) throw_field(name, "one value", "several");
    std::string value = begin->second;
    fields_.erase(begin);
    return value;
  }
  std::vector<std::string> list(const std::string& name) {
    std::vector<std::string> values;
    for (const std::string& spelling : {name, name + "[]"}) {
      const auto [begin, end] = fields_.equal_range(spelling);
      for (auto it = begin; it != end; ++it) values.push_back(it->second);
      fields_.erase(begin, end);
    }
    return values;
  }
  bool flag(const std::string& name) {
    const std::string value = text(name).value_or("false");
    if (value != "true" && value != "false" && value != "1" && value != "0") {
      throw_field(name, "true or false", "\"" + value.substr(0, 40) + "\"");
    }
    return value == "true" || value == "1";
  }
  void check_all_used() const {
    if (fields_.empty()) return;
    const std::string name = fields_.begin()->first.substr(0, 64);
    throw ApiError(400, name + ": this server has no such field", name, "unknown_field");
  }

 private:
  std::multimap<std::string, std::string> fields_;
};

struct SpeechRequest {
  SpeechHost* host = nullptr;
  std::shared_ptr<UniqueFd> file;
  SpeechOptions options;
  std::string options_key;
  std::string format = "json";
  bool is_streamed = false, wants_words = false, wants_segments = false;
};

constexpr std::array<std::pair<std::string_view, TranscriptFormat>, 6> kTextFormats = {
    {{"text", TranscriptFormat::kTxt},
     {"srt", TranscriptFormat::kSrt},
     {"vtt", TranscriptFormat::kVtt},
     {"tsv", TranscriptFormat::kTsv},
     {"csv", TranscriptFormat::kCsv},
     {"lrc", TranscriptFormat::kLrc}}};

const TranscriptFormat* text_format(std::string_view name) {
  const auto found =
      std::ranges::find(kTextFormats, name, [](const auto& format) { return format.first; });
  return found == kTextFormats.end() ? nullptr : &found->second;
}

void read_chunking(UploadFields& fields, SpeechOptions& options) {
  const auto value = fields.text("chunking_strategy");
  if (!value) return;
  if (*value == "auto") {
    options.vad.emplace();
    return;
  }
  const Json strategy = parse_json(*value);
  RequestFields inner(strategy, "chunking_strategy.");
  const Json& type = inner.require("type", "\"server_vad\"");
  if (type != "server_vad") throw_field("chunking_strategy.type", "\"server_vad\"", excerpt(type));
  SpeechSettings& vad = options.vad.emplace();
  if (const auto threshold = inner.number("threshold", 0.01, 0.99)) vad.threshold = *threshold;
  if (const auto pad = inner.number("prefix_padding_ms", 0, 3600e3)) vad.speech_pad_ms = *pad;
  if (const auto silence = inner.number("silence_duration_ms", 0, 3600e3)) {
    vad.min_silence_duration_ms = *silence;
  }
  inner.check_all_used();
}

SpeechRequest read_request(const ApiRequest& request, bool translates) {
  Upload upload = read_upload(request);
  UploadFields fields(std::move(upload.fields));
  SpeechRequest asked;
  asked.file = std::move(upload.file);
  asked.host = &request.models.speech(fields.text("model").value_or(""));
  DecodingSettings& decoding = asked.options.decoding;
  decoding.translate = translates;
  if (const auto language = fields.text("language"); language && !language->empty()) {
    decoding.language = *language;
  }
  if (const auto prompt = fields.text("prompt")) decoding.initial_prompt = *prompt;
  if (const auto hotwords = fields.text("hotwords")) decoding.hotwords = *hotwords;
  if (const auto text = fields.text("temperature"); text && !text->empty()) {
    double value = -1;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size() || !(value >= 0 && value <= 1)) {
      throw_field("temperature", "a number from 0 to 1", "\"" + text->substr(0, 40) + "\"");
    }
    decoding.temperatures = rising_temperatures(value, kFallbackIncrement);
  }
  asked.format = fields.text("response_format").value_or("json");
  if (asked.format != "json" && asked.format != "verbose_json" && !text_format(asked.format)) {
    throw_field("response_format", "json, text, srt, vtt, verbose_json, tsv, csv or lrc",
                "\"" + asked.format.substr(0, 40) + "\"");
  }
  for (const std::string& granularity : fields.list("timestamp_granularities")) {
    if (granularity != "word" && granularity != "segment") {
      throw_field("timestamp_granularities", "word or segment",
                  "\"" + granularity.substr(0, 40) + "\"");
    }
    (granularity == "word" ? asked.wants_words : asked.wants_segments) = true;
  }
  decoding.word_timestamps = asked.wants_words;
  asked.is_streamed = fields.flag("stream");
  if (const auto include = fields.list("include"); !include.empty()) {
    throw_field("include", "nothing", "\"" + include.front().substr(0, 40) + "\"");
  }
  read_chunking(fields, asked.options);
  fields.check_all_used();
  const Json key = {decoding.language,
                    decoding.translate,
                    decoding.initial_prompt,
                    decoding.hotwords,
                    decoding.temperatures,
                    decoding.word_timestamps,
                    asked.options.vad.has_value(),
                    asked.options.vad ? asked.options.vad->threshold : 0,
                    asked.options.vad ? asked.options.vad->speech_pad_ms : 0,
                    asked.options.vad ? asked.options.vad->min_silence_duration_ms : 0};
  asked.options_key = dump_json(key);
  return asked;
}

std::string without_space(const std::string& text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

std::string text_of(const Transcript& transcript) {
  std::string text;
  for (const Segment& segment : transcript.segments) text += segment.text;
  return without_space(text);
}

// Times of the API have hundredths of a second, as Whisper's have.
double rounded(double seconds) { return std::round(seconds * 100) / 100; }

// `has_spaces`: words with the spaces before them, so that they can be joined in any language.
Json words_json(const Segment& segment, bool has_spaces) {
  Json words = Json::array();
  for (const Word& word : segment.words) {
    words.push_back({{"word", has_spaces ? word.text : without_space(word.text)},
                     {"start", rounded(word.start_s)},
                     {"end", rounded(word.end_s)}});
  }
  return words;
}

Json verbose_json(const Transcript& transcript, const SpeechRequest& asked) {
  const auto index = find_whisper_language(transcript.language);
  const std::string language = index ? whisper_languages()[*index].name : transcript.language;
  Json body = {{"task", asked.options.decoding.translate ? "translate" : "transcribe"},
               {"language", language},
               {"duration", rounded(transcript.duration_s)},
               {"text", text_of(transcript)}};
  // As OpenAI's service: segments, unless only words were asked for.
  if (asked.wants_segments || !asked.wants_words) {
    Json& list = body["segments"] = Json::array();
    for (const Segment& segment : transcript.segments) {
      list.push_back({{"id", segment.id},
                      {"seek", segment.seek},
                      {"start", rounded(segment.start_s)},
                      {"end", rounded(segment.end_s)},
                      {"text", segment.text},
                      {"tokens", segment.tokens},
                      {"temperature", segment.temperature},
                      {"avg_logprob", segment.avg_logprob},
                      {"compression_ratio", segment.compression_ratio},
                      {"no_speech_prob", segment.no_speech_prob}});
    }
  }
  if (asked.wants_words) {
    Json& list = body["words"] = Json::array();
    for (const Segment& segment : transcript.segments) {
      for (Json& word : words_json(segment, false)) list.push_back(std::move(word));
    }
  }
  return body;
}

Json usage_json(const Transcript& transcript) {
  return {{"type", "duration"},
          {"seconds", static_cast<int64_t>(std::ceil(transcript.duration_s))}};
}

void respond(const ApiRequest& request, const SpeechRequest& asked, const Transcript& transcript) {
  if (asked.format == "json") {
    const Json body = {{"text", text_of(transcript)}, {"usage", usage_json(transcript)}};
    return respond_json(request.exchange, dump_json(body));
  }
  if (asked.format == "verbose_json") {
    Json body = verbose_json(transcript, asked);
    body["usage"] = usage_json(transcript);
    return respond_json(request.exchange, dump_json(body));
  }
  std::string text;
  const auto writer =
      make_writer(*text_format(asked.format), [&](std::string_view lines) { text += lines; });
  writer->begin({.file = "", .model = asked.host->hosted().name});
  for (const Segment& segment : transcript.segments) writer->segment(segment);
  writer->end(transcript);
  request.exchange.respond(
      200, asked.format == "vtt" ? "text/vtt; charset=utf-8" : "text/plain; charset=utf-8", text);
}

void send_segment(const ApiRequest& request, const SpeechRequest& asked, const Segment& segment,
                  bool is_first) {
  request.exchange.send_event(
      dump_json({{"type", "transcript.text.delta"},
                 {"delta", is_first ? without_space(segment.text) : segment.text}}));
  if (!asked.wants_segments && !asked.wants_words) return;
  Json event = {{"type", "transcript.text.segment"},
                {"id", std::to_string(segment.id)},
                {"start", rounded(segment.start_s)},
                {"end", rounded(segment.end_s)},
                {"text", segment.text},
                {"speaker", segment.speaker}};
  if (asked.wants_words) event["words"] = words_json(segment, true);
  request.exchange.send_event(dump_json(event));
}

void run(const ApiRequest& request, bool translates) {
  const SpeechRequest asked = read_request(request, translates);
  auto events = std::make_shared<EventQueue<SpeechEvent>>();
  RecordingJob job{.file = asked.file,
                   .reader = {.max_s = request.limits.max_audio_s},
                   .options = asked.options,
                   .options_key = asked.options_key,
                   .sender = EventSender<SpeechEvent>(events)};
  if (::lseek(asked.file->get(), 0, SEEK_SET) != 0) {
    throw ApiError(500, "cannot read the upload again");
  }
  if (!asked.host->push(request.client, std::move(job))) throw_busy(request.exchange);
  bool has_begun = false;
  wait_for_events(request.exchange, *events, [&](SpeechEvent event) {
    if (auto* failed = std::get_if<JobFailed>(&event)) throw as_api_error(failed->error);
    if (auto* done = std::get_if<SegmentDone>(&event)) {
      if (!asked.is_streamed) return false;
      if (!has_begun) request.exchange.begin_events();
      send_segment(request, asked, done->segment, !std::exchange(has_begun, true));
      return false;
    }
    const Transcript& transcript = std::get<TranscriptDone>(event).transcript;
    if (!asked.is_streamed) {
      respond(request, asked, transcript);
      return true;
    }
    if (!has_begun) request.exchange.begin_events();
    request.exchange.send_event(dump_json({{"type", "transcript.text.done"},
                                           {"text", text_of(transcript)},
                                           {"language", transcript.language},
                                           {"duration", rounded(transcript.duration_s)},
                                           {"usage", usage_json(transcript)}}));
    request.exchange.end_events();
    return true;
  });
}

}  // namespace

void transcriptions(const ApiRequest& request) { run(request, false); }
void translations(const ApiRequest& request) { run(request, true); }

}  // namespace vesper
