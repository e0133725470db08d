#include "cli/transcribe/vad_options.h"

#include "cli/terminal/command_line.h"
#include "cli/terminal/option_values.h"
#include "error/error.h"

namespace vesper {

VadOptions::VadOptions(CommandLine& line) {
  line.add_flag("--vad", wanted_);
  const auto number = [&](const std::string& name, double& setting, double low, double high,
                          const char* expected) {
    line.add_value(name, [this, &setting, name, low, high, expected](const std::string& text) {
      setting = parse_number(name, text, low, high, expected);
      detail_ = name;
    });
  };
  constexpr double kHourMs = 3600e3;
  number("--vad-threshold", settings_.threshold, 0.01, 0.99, "a number from 0.01 to 0.99");
  number("--vad-min-speech-ms", settings_.min_speech_duration_ms, 0, kHourMs,
         "milliseconds from 0 to 3600000");
  number("--vad-min-silence-ms", settings_.min_silence_duration_ms, 0, kHourMs,
         "milliseconds from 0 to 3600000");
  number("--vad-max-speech-s", settings_.max_speech_duration_s, 1, kHourMs,
         "seconds from 1 to 3600000");
  number("--vad-pad-ms", settings_.speech_pad_ms, 0, kHourMs, "milliseconds from 0 to 3600000");
}

std::optional<SpeechSettings> VadOptions::finish() const {
  if (!wanted_ && !detail_.empty()) {
    throw Error(ErrorKind::kUsage, detail_ + ": expected together with --vad");
  }
  return wanted_ ? std::optional(settings_) : std::nullopt;
}

}  // namespace vesper
