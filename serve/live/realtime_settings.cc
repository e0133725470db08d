#include "serve/live/realtime_settings.h"

#include <array>
#include <utility>

#include "llm/tokenizer/whisper_tokens.h"

namespace vesper {
namespace {

struct FormatNames {
  InputFormat format;
  const char *current, *beta;
};
constexpr std::array kFormats = {
    FormatNames{InputFormat::kPcm16, "audio/pcm", "pcm16"},
    FormatNames{InputFormat::kMuLaw, "audio/pcmu", "g711_ulaw"},
    FormatNames{InputFormat::kALaw, "audio/pcma", "g711_alaw"},
};

const FormatNames& names_of(InputFormat format) {
  for (const FormatNames& names : kFormats) {
    if (names.format == format) return names;
  }
  return kFormats.front();
}

InputFormat format_named(const std::string& name, RealtimeShape shape, const std::string& path) {
  std::string known;
  for (const FormatNames& names : kFormats) {
    const char* own = shape == RealtimeShape::kBeta ? names.beta : names.current;
    if (name == own) return names.format;
    known += (known.empty() ? "" : ", ") + std::string(own);
  }
  throw_field(path, known, excerpt(name));
}

// The object of a field that is given and not null.
std::optional<RequestFields> object_of(RequestFields& fields, const std::string& name) {
  const Json* value = fields.find(name);
  if (value == nullptr) return std::nullopt;
  return RequestFields(*value, fields.path_of(name) + ".");
}

void update_format(RealtimeSettings& settings, RequestFields fields) {
  const std::string type = fields.text("type").value_or("audio/pcm");
  settings.format = format_named(type, RealtimeShape::kCurrent, fields.path_of("type"));
  if (settings.format == InputFormat::kPcm16) fields.allow_only("rate", {24000});
  fields.check_all_used();
}

void update_transcription(RealtimeSettings& settings, RequestFields fields) {
  if (auto model = fields.text("model")) settings.model = *std::move(model);
  if (auto prompt = fields.text("prompt")) settings.prompt = *std::move(prompt);
  if (auto language = fields.text("language")) {
    if (!language->empty() && !find_whisper_language(*language)) {
      throw_field(fields.path_of("language"), "a language such as \"en\"", excerpt(*language));
    }
    settings.language = *std::move(language);
  }
  if (const Json* keywords = fields.find("keywords")) {
    settings.keywords.clear();
    const bool is_list = keywords->is_array();
    if (!is_list) throw_field(fields.path_of("keywords"), "a list of texts", excerpt(*keywords));
    for (const Json& keyword : *keywords) {
      if (!keyword.is_string()) {
        throw_field(fields.path_of("keywords"), "a list of texts", excerpt(keyword));
      }
      settings.keywords.push_back(keyword.get<std::string>());
    }
  }
  fields.check_all_used();
}

TurnSettings turn_settings(RequestFields fields) {
  // Our choice: what is longer is no turn of a talk, and the padding is kept in memory.
  constexpr int64_t kMostMs = 10000;
  TurnSettings turns;
  fields.require("type", "\"server_vad\"");
  fields.allow_only("type", {"server_vad"});
  turns.threshold = fields.number("threshold", 0, 1).value_or(turns.threshold);
  const auto milliseconds = [&](const std::string& name, double& target) {
    if (const auto given = fields.integer(name, 0, kMostMs)) target = static_cast<double>(*given);
  };
  milliseconds("prefix_padding_ms", turns.prefix_padding_ms);
  milliseconds("silence_duration_ms", turns.silence_duration_ms);
  // There are no responses in a transcription.
  fields.allow_only("create_response", {false});
  fields.allow_only("interrupt_response", {false});
  fields.check_all_used();
  return turns;
}

// The fields that both shapes have under `prefix`: "" or "input_audio_".
void update_input(RealtimeSettings& settings, RequestFields& fields, const std::string& prefix,
                  const Json& object, bool has_vad) {
  const std::string transcription = prefix + "transcription";
  if (auto given = object_of(fields, transcription)) update_transcription(settings, *given);
  // Null would turn it off.
  if (object.contains(transcription) && object.at(transcription).is_null()) {
    throw_field(fields.path_of(transcription), "an object", "null");
  }
  fields.allow_only(prefix + "noise_reduction", {});
  if (!object.contains("turn_detection")) return;
  settings.turn_detection.reset();
  if (const auto given = object_of(fields, "turn_detection")) {
    settings.turn_detection = turn_settings(*given);
    if (!has_vad) {
      throw_field(fields.path_of("turn_detection"), "null, because no VAD model is installed",
                  "\"server_vad\"");
    }
  }
}

}  // namespace

RealtimeSettings updated(RealtimeSettings settings, const Json& session, RealtimeShape shape,
                         bool has_vad) {
  RequestFields fields(session, "session.");
  // No log-probabilities are sent.
  fields.allow_only("include", {Json::array()});
  if (shape == RealtimeShape::kBeta) {
    if (const auto format = fields.text("input_audio_format")) {
      settings.format = format_named(*format, shape, fields.path_of("input_audio_format"));
    }
    update_input(settings, fields, "input_audio_", session, has_vad);
    fields.allow_only("modalities", {Json::array({"text"})});
    fields.check_all_used();
    return settings;
  }
  fields.require("type", "\"transcription\"");
  fields.allow_only("type", {"transcription"});
  if (auto audio = object_of(fields, "audio")) {
    if (auto input = object_of(*audio, "input")) {
      if (const auto format = object_of(*input, "format")) update_format(settings, *format);
      update_input(settings, *input, "", session.at("audio").at("input"), has_vad);
      input->check_all_used();
    }
    audio->check_all_used();
  }
  fields.check_all_used();
  return settings;
}

Json session_json(const RealtimeSettings& settings, const std::string& id, RealtimeShape shape) {
  Json transcription = {{"model", settings.model}, {"prompt", settings.prompt}};
  if (!settings.language.empty()) transcription["language"] = settings.language;
  if (!settings.keywords.empty()) transcription["keywords"] = settings.keywords;
  Json turns;  // null
  if (settings.turn_detection) {
    turns = {
        {"type", "server_vad"},
        {"threshold", settings.turn_detection->threshold},
        {"prefix_padding_ms", static_cast<int64_t>(settings.turn_detection->prefix_padding_ms)},
        {"silence_duration_ms",
         static_cast<int64_t>(settings.turn_detection->silence_duration_ms)}};
  }
  const FormatNames& names = names_of(settings.format);
  Json session = {{"id", id}, {"object", "realtime.transcription_session"}};
  if (shape == RealtimeShape::kBeta) {
    session["input_audio_format"] = names.beta;
    session["input_audio_transcription"] = std::move(transcription);
    session["turn_detection"] = std::move(turns);
    session["input_audio_noise_reduction"] = nullptr;
    return session;
  }
  Json format = {{"type", names.current}};
  if (settings.format == InputFormat::kPcm16) format["rate"] = 24000;
  session["type"] = "transcription";
  session["audio"] = {{"input",
                       {{"format", std::move(format)},
                        {"transcription", std::move(transcription)},
                        {"noise_reduction", nullptr},
                        {"turn_detection", std::move(turns)}}}};
  return session;
}

}  // namespace vesper
