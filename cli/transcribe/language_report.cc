#include "cli/transcribe/language_report.h"

#include <nlohmann/json.hpp>

#include "cli/terminal/program.h"
#include "error/error.h"
#include "error/number_text.h"
#include "llm/tokenizer/unicode/utf8_stream.h"
#include "llm/tokenizer/whisper_tokens.h"

namespace vesper {
namespace {

std::string name_of(const std::string& code) {
  const auto index = find_whisper_language(code);
  return index ? std::string(whisper_languages()[*index].name) : code;
}

std::string as_lines(const std::string& file, std::span<const LanguageProbability> languages) {
  constexpr double kWorthALine = 0.01;
  std::string lines;
  for (const LanguageProbability& language : languages) {
    if (!lines.empty() && language.probability < kWorthALine) break;
    if (!file.empty()) lines += printable(file) + "\t";
    lines += language.language + formatted("\t%.4f\t", language.probability) +
             name_of(language.language) + "\n";
  }
  return lines;
}

std::string as_json(const RecordingInfo& recording,
                    std::span<const LanguageProbability> languages) {
  nlohmann::ordered_json object, all;
  for (const LanguageProbability& language : languages) {
    all[language.language] = language.probability;
  }
  object["file"] = valid_utf8(recording.file);
  object["model"] = valid_utf8(recording.model);
  object["language"] = languages.front().language;
  object["language_probability"] = languages.front().probability;
  object["probabilities"] = std::move(all);
  return object.dump() + "\n";
}

}  // namespace

std::string language_report(TranscriptFormat format, const RecordingInfo& recording, bool with_file,
                            std::span<const LanguageProbability> languages) {
  if (languages.empty()) throw Error(ErrorKind::kInternal, "a language report without languages");
  switch (format) {
    case TranscriptFormat::kTxt:
      return as_lines(with_file ? recording.file : "", languages);
    case TranscriptFormat::kJson:
    case TranscriptFormat::kJsonl:
      return as_json(recording, languages);
    default:
      throw Error(ErrorKind::kInternal, "a language report as " + std::string(format_name(format)));
  }
}

}  // namespace vesper
