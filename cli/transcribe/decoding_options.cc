#include "cli/transcribe/decoding_options.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "cli/terminal/command_line.h"
#include "cli/terminal/option_values.h"
#include "error/error.h"

namespace vesper {
namespace {

// Which languages there are is the model's matter.
std::string parse_language(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool plausible = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || c == ' ' || c == '-';
  });
  if (!plausible)
    throw_usage("--language", "a code such as fr, a name such as french, or auto", text);
  return text;
}

std::vector<double> parse_temperatures(const std::string& list) {
  std::vector<double> temperatures;
  for (const std::string& part : split_at_commas(list)) {
    temperatures.push_back(
        parse_number("--temperature", part, 0, 10, "numbers from 0 to 10 with commas between"));
  }
  return temperatures;
}

void parse_suppressed(const std::string& list, DecodingSettings& decoding) {
  decoding.suppress_model_tokens = false;
  decoding.suppress_tokens.clear();
  if (list.empty() || list == "none") return;
  for (const std::string& part : split_at_commas(list)) {
    const int64_t token =
        parse_integer("--suppress-tokens", part, -1, std::numeric_limits<int32_t>::max(),
                      "token ids with commas between, -1 for the model's, or none");
    if (token == -1) {
      decoding.suppress_model_tokens = true;
    } else {
      decoding.suppress_tokens.push_back(static_cast<int32_t>(token));
    }
  }
}

std::vector<double> parse_clips(const std::string& list) {
  std::vector<double> seconds;
  if (list.empty()) return seconds;
  constexpr const char* kExpected = "rising seconds with commas between: start,end,start,end,...";
  for (const std::string& part : split_at_commas(list)) {
    const double least = seconds.empty() ? 0 : seconds.back();
    seconds.push_back(parse_number("--clip-timestamps", part, least, 1e9, kExpected));
  }
  return seconds;
}

}  // namespace

DecodingOptions::DecodingOptions(CommandLine& line, DecodingSettings& decoding)
    : decoding_(decoding), increment_(kFallbackIncrement) {
  add_language(line);
  add_search(line);
  add_thresholds(line);
  add_prompts(line);
  add_times(line);
}

void DecodingOptions::add_language(CommandLine& line) {
  line.add_value("-l,--language",
                 [this](const std::string& text) { decoding_.language = parse_language(text); });
  line.add_value("--task", [this](const std::string& text) {
    decoding_.translate = parse_choice("--task", text, {"transcribe", "translate"}) == "translate";
  });
  line.add_flag("--multilingual", decoding_.multilingual);
  line.add_value("--language-detection-segments", [this](const std::string& text) {
    decoding_.language_detection_segments =
        static_cast<uint32_t>(parse_integer("--language-detection-segments", text, 1, 1000));
  });
  line.add_value("--language-detection-threshold", [this](const std::string& text) {
    decoding_.language_detection_threshold =
        parse_number("--language-detection-threshold", text, 0, 1, "a number from 0 to 1");
  });
}

void DecodingOptions::add_search(CommandLine& line) {
  line.add_value("--temperature", [this](const std::string& text) {
    decoding_.temperatures = parse_temperatures(text);
    temperature_is_given_ = true;
  });
  line.add_value("--temperature-increment-on-fallback", [this](const std::string& text) {
    increment_ = parse_threshold("--temperature-increment-on-fallback", text);
    increment_is_given_ = true;
    if (increment_ && !(*increment_ >= 0.01)) {
      throw_usage("--temperature-increment-on-fallback", "0.01 or more, or none", text);
    }
  });
  line.add_value("--best-of", [this](const std::string& text) {
    decoding_.best_of = static_cast<uint32_t>(parse_integer("--best-of", text, 1, 64));
  });
  line.add_value("--beam-size", [this](const std::string& text) {
    decoding_.beam_size =
        static_cast<uint32_t>(parse_integer("--beam-size", text, 1, kMostBeamSize));
  });
  line.add_value("--patience", [this](const std::string& text) {
    decoding_.patience = parse_number("--patience", text, 0.01, kMostPatience,
                                      "a number from 0.01 to 8: texts for each beam");
    patience_is_given_ = true;
  });
  line.add_value("--repetition-penalty", [this](const std::string& text) {
    decoding_.repetition_penalty =
        parse_number("--repetition-penalty", text, 0.01, 100, "a number from 0.01 to 100");
  });
  line.add_value("--no-repeat-ngram-size", [this](const std::string& text) {
    decoding_.no_repeat_ngram_size =
        static_cast<uint32_t>(parse_integer("--no-repeat-ngram-size", text, 0, 448));
  });
  line.add_value("--length-penalty", [this](const std::string& text) {
    decoding_.length_penalty.reset();
    if (text == "none" || text == "None") return;
    decoding_.length_penalty =
        parse_number("--length-penalty", text, 0, 1, "a number from 0 to 1, or none");
  });
  line.add_value("--seed", [this](const std::string& text) {
    decoding_.seed = static_cast<uint32_t>(
        parse_integer("--seed", text, 0, std::numeric_limits<uint32_t>::max()));
  });
}

void DecodingOptions::add_thresholds(CommandLine& line) {
  line.add_value("--compression-ratio-threshold", [this](const std::string& text) {
    decoding_.compression_ratio_threshold = parse_threshold("--compression-ratio-threshold", text);
  });
  line.add_value("--logprob-threshold", [this](const std::string& text) {
    decoding_.logprob_threshold = parse_threshold("--logprob-threshold", text);
  });
  line.add_value("--no-speech-threshold", [this](const std::string& text) {
    decoding_.no_speech_threshold = parse_threshold("--no-speech-threshold", text);
  });
}

void DecodingOptions::add_prompts(CommandLine& line) {
  line.add_value("--condition-on-previous-text", [this](const std::string& text) {
    decoding_.condition_on_previous_text = parse_truth("--condition-on-previous-text", text);
  });
  line.add_value("--initial-prompt",
                 [this](const std::string& text) { decoding_.initial_prompt = text; });
  line.add_value("--carry-initial-prompt", [this](const std::string& text) {
    decoding_.carry_initial_prompt = parse_truth("--carry-initial-prompt", text);
  });
  line.add_value("--hotwords", [this](const std::string& text) { decoding_.hotwords = text; });
  line.add_value("--prefix", [this](const std::string& text) { decoding_.prefix = text; });
  line.add_value("--suppress-tokens",
                 [this](const std::string& text) { parse_suppressed(text, decoding_); });
  line.add_value("--suppress-regex",
                 [this](const std::string& text) { decoding_.suppress_regex = text; });
  line.add_flag("--suppress-numerals", decoding_.suppress_numerals);
}

void DecodingOptions::add_times(CommandLine& line) {
  line.add_flag("--reference", is_reference_);
  line.add_value("--disable-rule",
                 [this](const std::string& text) { disable_rule(decoding_.policy, text); });
  line.add_flag("--without-timestamps", decoding_.without_timestamps);
  line.add_value("--clip-timestamps", [this](const std::string& text) {
    decoding_.clip_timestamps = parse_clips(text);
  });
  line.add_value("--max-initial-timestamp", [this](const std::string& text) {
    decoding_.max_initial_timestamp_s =
        parse_number("--max-initial-timestamp", text, 0, 30, "seconds from 0 to 30");
  });
  line.add_value("--max-new-tokens", [this](const std::string& text) {
    decoding_.max_new_tokens =
        static_cast<uint32_t>(parse_integer("--max-new-tokens", text, 1, 448));
  });
}

void DecodingOptions::finish() {
  if (is_reference_) decoding_.policy = WindowPolicy::reference();
  if (decoding_.multilingual && decoding_.language != "auto") {
    throw Error(ErrorKind::kUsage, "--multilingual: expected without --language");
  }
  std::vector<double>& temperatures = decoding_.temperatures;
  if (!temperature_is_given_) temperatures.resize(1);
  if (increment_is_given_ && increment_ && temperatures.size() != 1) {
    throw Error(ErrorKind::kUsage,
                "--temperature-increment-on-fallback: expected a single --temperature, found " +
                    std::to_string(temperatures.size()));
  }
  if (increment_ && temperatures.size() == 1) {
    temperatures = rising_temperatures(temperatures.front(), *increment_);
  }
  if (patience_is_given_ && decoding_.beam_size == 1) {
    throw Error(ErrorKind::kUsage, "--patience: expected together with a --beam-size above 1");
  }
  if (most_finished(decoding_) == 0) {
    throw Error(ErrorKind::kUsage, "--patience: with " + std::to_string(decoding_.beam_size) +
                                       " beams no text would ever end the search");
  }
}

}  // namespace vesper
