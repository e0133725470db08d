#include "serve/api/transcriptions.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
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

// An upload: its file, and its other fields as the schema in openapi.json types them.
struct Upload {
  std::shared_ptr<UniqueFd> file;
  Json fields = Json::object();
};

constexpr const char* kSchema = "RecordingRequest";

// A field of a form is a text. What is no number or no boolean stays one, and is refused later.
Json form_value(const std::string& type, const std::string& text) {
  if (type == "boolean") {
    if (text == "true" || text == "1") return true;
    if (text == "false" || text == "0") return false;
  } else if (type == "number") {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return value;
  }
  return text;
}

// Adds a field. Lists are fields that repeat, "NAME[]" or "NAME".
void add_field(Json& fields, const std::string& name, const std::string& text) {
  static const ObjectSchema schema(kSchema);
  if (const std::string list = name + "[]"; schema.has(list)) return add_field(fields, list, text);
  const std::string type = schema.has(name) ? schema.field(name).at("type") : "string";
  if (type == "array") {
    fields[name].push_back(text);
  } else if (fields.contains(name)) {
    throw_field(name, "one value", "several");
  } else {
    fields[name] = form_value(type, text);
  }
}

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
                                if (!is_file) add_field(upload.fields, name, value);
                              }});
  request.exchange.read_body(request.limits.max_upload_bytes,
                             [&](std::string_view bytes) { parser.push(bytes); });
  parser.finish();
  if (!upload.file) throw_field("file", "a recording", "nothing");
  return upload;
}

struct SpeechRequest {
  SpeechHost* host = nullptr;
  std::shared_ptr<UniqueFd> file;
  SpeechOptions options;
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

void read_chunking(RequestFields& fields, SpeechOptions& options) {
  const auto value = fields.text("chunking_strategy");
  if (!value) return;
  if (*value == "auto") {
    options.vad.emplace();
    return;
  }
  if (!value->starts_with('{')) {
    throw_field("chunking_strategy", "auto or a JSON object", excerpt(*value));
  }
  const Json strategy = parse_json(*value);
  RequestFields inner(strategy, "VoiceActivity", "chunking_strategy.");
  inner.require_choice("type");
  SpeechSettings& vad = options.vad.emplace();
  if (const auto threshold = inner.number("threshold")) vad.threshold = *threshold;
  if (const auto pad = inner.number("prefix_padding_ms")) vad.speech_pad_ms = *pad;
  if (const auto silence = inner.number("silence_duration_ms")) {
    vad.min_silence_duration_ms = *silence;
  }
  inner.check_all_used();
}

void read_granularities(RequestFields& fields, SpeechRequest& asked) {
  const Json* list = fields.find("timestamp_granularities[]");
  if (list == nullptr) return;
  for (const Json& granularity : *list) {
    if (granularity != "word" && granularity != "segment") {
      throw_field("timestamp_granularities", "word or segment", excerpt(granularity));
    }
    (granularity == "word" ? asked.wants_words : asked.wants_segments) = true;
  }
}

SpeechRequest read_request(const ApiRequest& request, bool translates) {
  Upload upload = read_upload(request);
  RequestFields fields(upload.fields, kSchema, "");
  fields.ignore("file");
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
  if (const auto temperature = fields.number("temperature")) {
    decoding.temperatures = rising_temperatures(*temperature, kFallbackIncrement);
  }
  asked.format = fields.choice("response_format").value_or("json");
  read_granularities(fields, asked);
  decoding.word_timestamps = asked.wants_words;
  asked.is_streamed = fields.boolean("stream").value_or(false);
  read_chunking(fields, asked.options);
  fields.check_all_used();
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
                   .reader = {.max_s = request.limits.max_audio_s,
                              .max_decoding_s = request.limits.max_decoding_s},
                   .options = std::make_shared<SpeechOptions>(asked.options),
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
