#include "cli/transcribe_arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "cli/version.h"
#include "error/error.h"

namespace vesper {
namespace {

// At most 40 lines of 80 columns, each.
constexpr std::string_view kHelp = R"(Usage: transcribe [OPTION]... RECORDING...
Turns speech into text. A RECORDING is an audio file, or - for standard input.

  -m, --model NAME|PATH  tiny, tiny.en, base (default), small, medium, large-v3,
                         turbo, ... (fetched when absent), or a file or folder
  -f, --format LIST      one or more of txt (default), srt, vtt, tsv, csv,
                         lrc, json, jsonl, with commas between; or all
  -o, --output-dir DIR   write files there, not to standard output; with several
                         formats and no DIR they go beside each recording
  -l, --language NAME    spoken language: fr, french, auto (default: detected)
      --task TASK        transcribe (default), or translate into English
      --device DEVICE    auto (default), cpu, vulkan, vulkan:N
      --compute TYPE     auto (default), f32, f16, bf16, int8
  -t, --threads N        of the CPU (default: as many as it has cores)
      --offline          never fetch a model
  -q, --quiet            no progress and no notes
  -v, --verbose          say what is used and how long it took
      --version, -h, --help
      --help-decoding    the options of search, thresholds, prompts and clips

Only what is speech (model silero-vad, from scripts/fetch-models.sh):
      --vad                         leave out silence, noise and music
      --vad-threshold X             probability from which on it is speech (0.5)
      --vad-min-speech-ms N         shorter is no speech (250)
      --vad-min-silence-ms N        shorter does not end it (2000)
      --vad-pad-ms N                added before and after (400)

Models are looked for in $VESPER_MODELS and in ~/.cache/vesper/models.
Exit status: 0 done, 2 usage, 3 input, 4 model, 5 device, 6 output.

  transcribe -m tiny.en talk.wav
  transcribe -m base -f srt,vtt,json talk.wav french.aiff *.flac -o subtitles/
  sox talk.wav -t wav - | transcribe -m tiny.en -
)";

constexpr std::string_view kDecodingHelp =
    R"(Options of transcribe that say how speech is decoded, named as in
openai-whisper or faster-whisper; "none" switches a threshold off.

      --temperature T                     0 (default): likeliest; above: drawn
      --temperature-increment-on-fallback X
                                          after a failure try again this much
                                          hotter, up to 1 (0.2); or name all:
                                          --temperature 0,0.2,0.4
      --best-of N                         drawn above 0, the best is kept (5)
      --length-penalty X                  power of the length that scores are
                                          divided by, 0 to 1 (none: their mean)
      --seed N                            of what is drawn (0)
      --compression-ratio-threshold X     more than this is a failure (2.4)
      --logprob-threshold X               less than this is a failure (-1.0)
      --no-speech-threshold X             more than this is silence (0.6)
      --condition-on-previous-text BOOL   prompt with the text so far (true)
      --initial-prompt TEXT               names and words to expect at the start
      --carry-initial-prompt BOOL         and in every window (false)
      --hotwords TEXT                     words to expect in every window
      --prefix TEXT                       what the recording begins with
      --clip-timestamps LIST              start,end,... in seconds: only these
      --without-timestamps                one segment for each window
      --max-initial-timestamp SECONDS     latest first time in a window (1.0)
      --max-new-tokens N                  at most so many tokens a window (224)
      --suppress-tokens LIST              ids; -1: the model's list (default)
)";

[[noreturn]] void throw_usage(const std::string& option, const std::string& expected,
                              const std::string& found) {
  throw Error(ErrorKind::kUsage, option + ": expected " + expected + ", found \"" + found + "\"");
}

std::vector<std::string> split_at_commas(const std::string& list) {
  std::vector<std::string> parts(1);
  for (char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// A finite decimal number in [low, high].
double parse_number(const std::string& option, const std::string& text, double low, double high,
                    const std::string& expected) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= low && value <= high)) {
    throw_usage(option, expected, text);
  }
  return value;
}

int64_t parse_integer(const std::string& option, const std::string& text, int64_t low, int64_t high,
                      const std::string& expected) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw_usage(option, expected, text);
  }
  return value;
}

std::optional<double> parse_threshold(const std::string& option, const std::string& text) {
  if (text == "none" || text == "None") return std::nullopt;
  constexpr double kAny = std::numeric_limits<double>::max();
  return parse_number(option, text, -kAny, kAny, "a number or none");
}

bool parse_truth(const std::string& option, const std::string& text) {
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  throw_usage(option, "true or false", text);
}

std::string parse_choice(const std::string& option, const std::string& text,
                         std::initializer_list<std::string_view> choices) {
  std::string expected;
  for (std::string_view choice : choices) {
    if (text == choice) return text;
    expected += (expected.empty() ? "" : ", ") + std::string(choice);
  }
  throw_usage(option, "one of " + expected, text);
}

std::string parse_device(const std::string& text) {
  constexpr std::string_view kNumbered = "vulkan:";
  if (text.compare(0, kNumbered.size(), kNumbered) == 0) {
    parse_integer("--device", text.substr(kNumbered.size()), 0, 255,
                  "vulkan:N with N from 0 to 255");
    return text;
  }
  return parse_choice("--device", text, {"auto", "cpu", "vulkan", "vulkan:N"});
}

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

// openai-whisper's default.
constexpr double kFallbackIncrement = 0.2;

// The temperatures from the only one of `list` to 1.
std::vector<double> rising_temperatures(const std::vector<double>& list, double increment) {
  if (list.size() != 1) {
    throw Error(ErrorKind::kUsage,
                "--temperature-increment-on-fallback: expected a single --temperature, found " +
                    std::to_string(list.size()));
  }
  constexpr double kHottest = 1.0 + 1e-6;
  std::vector<double> temperatures = list;
  for (int i = 1; list[0] + i * increment <= kHottest; ++i) {
    temperatures.push_back(list[0] + i * increment);
  }
  return temperatures;
}

// CLI11 explains itself in up to two lines.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

TranscribeCommand parse_transcribe_arguments(int argc, const char* const* argv) {
  TranscribeCommand command;
  TranscribeArguments& arguments = command.arguments;
  DecodingSettings& decoding = arguments.decoding;

  CLI::App app;
  app.set_help_flag();
  bool help = false, help_decoding = false, version = false;
  app.add_flag("-h,--help", help);
  app.add_flag("--help-decoding", help_decoding);
  app.add_flag("--version", version);
  app.add_flag("--offline", arguments.offline);
  app.add_flag("-q,--quiet", arguments.quiet);
  app.add_flag("-v,--verbose", arguments.verbose);
  app.add_flag("--without-timestamps", decoding.without_timestamps);
  // A repeated option counts as it stands last.
  const auto option = [&](const char* names, std::function<void(const std::string&)> take) {
    app.add_option_function<std::string>(names, take)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  std::string output_folder;
  option("-m,--model", [&](const std::string& text) { arguments.model = text; });
  option("-f,--format", [&](const std::string& text) { arguments.formats = parse_formats(text); });
  option("-o,--output-dir", [&](const std::string& text) {
    if (text.empty()) throw_usage("--output-dir", "a folder", text);
    output_folder = text;
  });
  option("-l,--language",
         [&](const std::string& text) { decoding.language = parse_language(text); });
  option("--task", [&](const std::string& text) {
    decoding.translate = parse_choice("--task", text, {"transcribe", "translate"}) == "translate";
  });
  option("--device",
         [&](const std::string& text) { arguments.engine.device = parse_device(text); });
  option("--compute", [&](const std::string& text) {
    arguments.engine.compute =
        parse_choice("--compute", text, {"auto", "f32", "f16", "bf16", "int8"});
  });
  option("-t,--threads", [&](const std::string& text) {
    arguments.engine.threads =
        static_cast<unsigned>(parse_integer("--threads", text, 1, 1024, "a number from 1 to 1024"));
  });
  option("--initial-prompt", [&](const std::string& text) { decoding.initial_prompt = text; });
  option("--condition-on-previous-text", [&](const std::string& text) {
    decoding.condition_on_previous_text = parse_truth("--condition-on-previous-text", text);
  });
  option("--max-initial-timestamp", [&](const std::string& text) {
    decoding.max_initial_timestamp_s =
        parse_number("--max-initial-timestamp", text, 0, 30, "seconds from 0 to 30");
  });
  option("--temperature",
         [&](const std::string& text) { decoding.temperatures = parse_temperatures(text); });
  std::optional<double> increment = kFallbackIncrement;
  bool increment_is_given = false;
  option("--temperature-increment-on-fallback", [&](const std::string& text) {
    increment = parse_threshold("--temperature-increment-on-fallback", text);
    increment_is_given = true;
    if (increment && !(*increment >= 0.01)) {
      throw_usage("--temperature-increment-on-fallback", "0.01 or more, or none", text);
    }
  });
  option("--best-of", [&](const std::string& text) {
    decoding.best_of =
        static_cast<uint32_t>(parse_integer("--best-of", text, 1, 64, "a number from 1 to 64"));
  });
  option("--length-penalty", [&](const std::string& text) {
    decoding.length_penalty.reset();
    if (text == "none" || text == "None") return;
    decoding.length_penalty =
        parse_number("--length-penalty", text, 0, 1, "a number from 0 to 1, or none");
  });
  option("--seed", [&](const std::string& text) {
    decoding.seed = static_cast<uint32_t>(parse_integer(
        "--seed", text, 0, std::numeric_limits<uint32_t>::max(), "a number from 0 to 4294967295"));
  });
  option("--max-new-tokens", [&](const std::string& text) {
    decoding.max_new_tokens = static_cast<uint32_t>(
        parse_integer("--max-new-tokens", text, 1, 448, "a number from 1 to 448"));
  });
  option("--carry-initial-prompt", [&](const std::string& text) {
    decoding.carry_initial_prompt = parse_truth("--carry-initial-prompt", text);
  });
  option("--hotwords", [&](const std::string& text) { decoding.hotwords = text; });
  option("--prefix", [&](const std::string& text) { decoding.prefix = text; });
  option("--clip-timestamps",
         [&](const std::string& text) { decoding.clip_timestamps = parse_clips(text); });
  option("--compression-ratio-threshold", [&](const std::string& text) {
    decoding.compression_ratio_threshold = parse_threshold("--compression-ratio-threshold", text);
  });
  option("--logprob-threshold", [&](const std::string& text) {
    decoding.logprob_threshold = parse_threshold("--logprob-threshold", text);
  });
  option("--no-speech-threshold", [&](const std::string& text) {
    decoding.no_speech_threshold = parse_threshold("--no-speech-threshold", text);
  });
  option("--suppress-tokens", [&](const std::string& text) { parse_suppressed(text, decoding); });
  bool vad = false;
  std::string vad_detail;  // an option that is of no use without --vad
  SpeechSettings speech;
  app.add_flag("--vad", vad);
  const auto vad_option = [&](const std::string& name, double& setting, double low, double high,
                              const char* expected) {
    option(name.c_str(), [&, name, low, high, expected](const std::string& text) {
      setting = parse_number(name, text, low, high, expected);
      vad_detail = name;
    });
  };
  constexpr double kHourMs = 3600e3;
  vad_option("--vad-threshold", speech.threshold, 0.01, 0.99, "a number from 0.01 to 0.99");
  vad_option("--vad-min-speech-ms", speech.min_speech_duration_ms, 0, kHourMs,
             "milliseconds from 0 to 3600000");
  vad_option("--vad-min-silence-ms", speech.min_silence_duration_ms, 0, kHourMs,
             "milliseconds from 0 to 3600000");
  vad_option("--vad-pad-ms", speech.speech_pad_ms, 0, kHourMs, "milliseconds from 0 to 3600000");
  app.add_option("recordings", arguments.inputs);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // An error of ours in a callback passes through; this is what CLI11 found itself.
    if (!help && !help_decoding && !version) {
      throw Error(ErrorKind::kUsage, first_line(error.what()) + " (see transcribe --help)");
    }
  }
  if (help || help_decoding) {
    command.answer = help ? kHelp : kDecodingHelp;
    return command;
  }
  if (version) {
    command.answer = "transcribe " + std::string(kVersion) + " (Vesper)\n";
    return command;
  }
  if (increment && (increment_is_given || decoding.temperatures.size() == 1)) {
    decoding.temperatures = rising_temperatures(decoding.temperatures, *increment);
  }
  arguments.engine.n_candidates = most_candidates(decoding);
  if (vad) {
    arguments.engine.vad = speech;
  } else if (!vad_detail.empty()) {
    throw Error(ErrorKind::kUsage, vad_detail + ": expected together with --vad");
  }
  if (arguments.inputs.empty()) {
    throw Error(ErrorKind::kUsage, "expected at least one recording (see transcribe --help)");
  }
  if (std::count(arguments.inputs.begin(), arguments.inputs.end(), "-") > 1) {
    throw Error(ErrorKind::kUsage, "standard input (-) can be read only once");
  }
  for (const std::string& input : arguments.inputs) {
    if (input.empty()) throw Error(ErrorKind::kUsage, "a recording's name is empty");
  }
  if (output_folder == "-") {
    if (arguments.formats.size() > 1) {
      throw Error(ErrorKind::kUsage, "--output-dir: standard output (-) takes one format");
    }
  } else if (!output_folder.empty()) {
    arguments.output_folder = output_folder;
  }
  arguments.to_stdout = arguments.formats.size() == 1 && !arguments.output_folder;
  return command;
}

}  // namespace vesper
