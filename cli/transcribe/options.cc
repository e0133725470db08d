#include "cli/transcribe/options.h"

#include <unistd.h>

#include <algorithm>

#include "cli/terminal/progress.h"
#include "cli/terminal/text_input.h"
#include "error/error.h"

namespace vesper {
namespace {

constexpr int64_t kMostTokenId = std::numeric_limits<int32_t>::max();

// The model decides which languages there are.
std::string parse_language(const std::string& option, std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool is_plausible = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || c == ' ' || c == '-';
  });
  if (!is_plausible) {
    throw_usage(option, "a code such as fr, a name such as french, or auto", text);
  }
  return text;
}

std::vector<double> parse_temperatures(const std::string& option, const std::string& list) {
  std::vector<double> temperatures;
  for (const std::string& part : split_at_commas(list)) {
    temperatures.push_back(parse_number(option, part, bounds::kTemperature.low,
                                        bounds::kTemperature.high,
                                        "numbers from 0 to 10 with commas between"));
  }
  return temperatures;
}

void parse_suppressed(const std::string& option, const std::string& list,
                      DecodingSettings& decoding) {
  decoding.suppress_model_tokens = false;
  decoding.suppress_tokens.clear();
  if (list.empty() || list == "none") return;
  for (const std::string& part : split_at_commas(list)) {
    const int64_t token =
        parse_integer(option, part, -1, kMostTokenId,
                      "token ids with commas between, -1 for the model's, or none");
    if (token == -1) {
      decoding.suppress_model_tokens = true;
    } else {
      decoding.suppress_tokens.push_back(static_cast<int32_t>(token));
    }
  }
}

std::vector<double> parse_clips(const std::string& option, const std::string& list) {
  std::vector<double> seconds;
  if (list.empty()) return seconds;
  for (const std::string& part : split_at_commas(list)) {
    const double least = seconds.empty() ? 0 : seconds.back();
    seconds.push_back(parse_number(option, part, least, 1e9,
                                   "rising seconds with commas between: start,end,start,end,..."));
  }
  return seconds;
}

// Whether text on standard output is to be in colors.
bool wants_colors(const std::string& when) {
  return when == "auto" ? isatty(STDOUT_FILENO) && wants_colour() : when == "always";
}

void add_input_options(OptionTable& options, TranscribeArguments& arguments) {
  options.section("Model, input and output");
  options.add_model_option(arguments.model, ModelKind::kSpeech,
                           "tiny.en, base, small, medium, large-v3, turbo, ... (fetched if "
                           "absent), or a file or folder");
  OptionValue formats = parsed_option([&](const std::string&, const std::string& text) {
    arguments.formats = parse_formats(text);
  });
  formats.choices = {"txt", "srt", "vtt", "tsv", "csv", "lrc", "json", "jsonl", "all"};
  formats.default_text = "txt";
  formats.is_list = true;
  options.add("-f, --format LIST", formats, "output formats, separated by commas");
  options.add("-o, --output-dir DIR", folder_option(arguments.given.output_folder),
              "write files there; by default one format goes to standard output (-), several go "
              "beside each recording");
  options
      .add("-r, --recursive", flag_option(arguments.inputs.recursive),
           "transcribe the recordings in folders; DIR gets the same folders")
      .add_details("Files without the extension of a recording are skipped.");
  options.add("--resume", flag_option(arguments.resume),
              "skip recordings whose output files are complete");
  options.add("-q, --quiet", flag_option(arguments.quiet), "no progress and no notes");
  options.add("-v, --verbose", flag_option(arguments.verbose),
              "print the device, times and dropped text");
  options.section("Many recordings", R"(Events of --jobs-json:
  {"event": "loaded", engine, elapsed_s}
  {"event": "start", file, index, count}
  {"event": "progress", file, index, count, done_s, total_s}
  {"event": "segment", file, id, start_s, end_s, text}
  {"event": "done", file, index, count, outputs, language, duration_s,
                    elapsed_s, speed}
  {"event": "skipped", file, index, count, outputs}
  {"event": "error", file, status, message}
  {"event": "summary", recordings, done, skipped, failed, audio_s, elapsed_s,
                       speed, status}
  {"event": "fetching", model, done_bytes, total_bytes}
  {"event": "note", message}
Times are in seconds, index counts from 0, speed is audio_s / elapsed_s; file is null in an error that ends the whole run.)");
  options
      .add_advanced("--files-from FILE", file_option(arguments.inputs.files_from, true),
                    "read the paths of recordings from FILE, one a line, or - for standard input")
      .add_details(
          "Output files lie beside the recordings, or below DIR; relative paths keep their folders "
          "there.");
  options
      .add_advanced("-0, --null", flag_option(arguments.inputs.null_separated),
                    "the paths end with a zero byte (find -print0)")
      .needs("--files-from");
  options.add_advanced("--jobs-json", flag_option(arguments.jobs_json),
                       "print progress on standard error as JSON lines");
}

void add_sound_options(OptionTable& options, TranscribeArguments& arguments) {
  ReaderOptions& reader = arguments.reader;
  options.section("Channels and raw sound");
  OptionValue channels = parsed_option([&](const std::string& option, const std::string& text) {
    arguments.given.split_channels = text == "split";
    reader.channel.reset();
    if (text == "split" || text == "mix") return;
    const bool is_named = text == "left" || text == "right";
    reader.channel =
        is_named ? text == "right"
                 : static_cast<int>(parse_integer(option, text, 1, AudioReader::kMaxChannels,
                                                  "mix, split, left, right, or a number from 1")) -
                       1;
  });
  channels.choices = {"mix", "split", "left", "right", "N"};
  channels.default_text = "mix";
  options.add_advanced("--channels WHICH", channels, "the channels to transcribe")
      .add_details(
          "mix: the mean of all. split: each by itself, with [left], [right] or [channel N] before "
          "its text. left, right, or a number from 1: that channel alone.");
  options
      .add_advanced("--diarize HOW",
                    choice_option(arguments.given.diarize, {{"stereo", true}, {"none", false}}),
                    "label speakers")
      .add_details(
          "stereo: by the louder of two channels: (speaker 0), (speaker 1), or "
          "(speaker ?).");
  options.add_advanced("--pcm ENCODING",
                       choice_option(arguments.given.pcm, {{"s16le", RawPcm::Encoding::kS16Le},
                                                           {"f32le", RawPcm::Encoding::kF32Le}}),
                       "the input is interleaved samples without a header");
  RawPcm& raw = arguments.given.raw;
  options
      .add_advanced("--pcm-rate HZ",
                    integer_option(raw.sample_rate_hz, AudioReader::kMinSampleRateHz,
                                   AudioReader::kMaxSampleRateHz),
                    "sample rate of --pcm")
      .needs("--pcm");
  options
      .add_advanced("--pcm-channels N", integer_option(raw.channels, 1, AudioReader::kMaxChannels),
                    "channels of --pcm")
      .needs("--pcm");
}

void add_stream_options(OptionTable& options, TranscribeArguments& arguments) {
  options.section("Live captions", R"(Of standard input or a named pipe:
  arecord -q -f S16_LE -r 16000 | transcribe -m base --stream -
  ffmpeg -i URL -f s16le -ar 16000 -ac 1 - | transcribe --stream --pcm s16le -
Ctrl-C ends the stream: the sound so far is transcribed to its end, and files are completed. A second Ctrl-C ends the program.)");
  options
      .add("--stream", flag_option(arguments.given.stream), "print live captions of standard input")
      .add_details(
          R"(A word is final when two passes in a row agree on it. -f jsonl prints events: "partial" (may still change), "final", "segment" and "end".)");
  options
      .add_advanced("--stream-step S",
                    number_option(arguments.given.stream_step_s, bounds::kStreamStep, "seconds"),
                    "decode new sound every S seconds")
      .needs("--stream");
  options.exclude({"--stream", "--resume"});
  options.exclude({"--stream", "--detect-language"});
}

void add_language_options(OptionTable& options, TranscribeArguments& arguments) {
  DecodingSettings& decoding = arguments.speech.decoding;
  options.section("Languages");
  options.add("-l, --language NAME",
              parsed_option([&](const std::string& option, const std::string& text) {
                decoding.language = parse_language(option, text);
              }).with_default("auto, detected"),
              "spoken language: fr, french");
  options.add("--task TASK",
              choice_option(decoding.translate, {{"transcribe", false}, {"translate", true}}),
              "keep the language, or translate into English");
  options
      .add_advanced("--detect-language", flag_option(arguments.detect_language),
                    "print only the languages: code, probability and name, most likely first")
      .add_details("txt has languages of at least 1%, json and jsonl all of them.");
  options.add_advanced(
      "--language-detection-segments N",
      integer_option(decoding.language_detection_segments, bounds::kLanguageDetectionSegments),
      "detect the language in at most N windows of 30 s");
  options.add_advanced(
      "--language-detection-threshold X",
      number_option(decoding.language_detection_threshold, bounds::kProbability),
      "the first window with a language above X decides; if there is none, the mean of all");
  options.add_advanced("--multilingual", flag_option(decoding.multilingual),
                       "follow changes of the language");
}

void add_search_options(OptionTable& options, TranscribeArguments& arguments) {
  DecodingSettings& decoding = arguments.speech.decoding;
  options.section("Decoding",
                  "Named as in openai-whisper or faster-whisper; \"none\" switches a "
                  "threshold off.");
  options.add_advanced("--temperature T",
                       parsed_option([&](const std::string& option, const std::string& text) {
                         decoding.temperatures = parse_temperatures(option, text);
                       }).with_default("0"),
                       "0 takes the most likely text; above 0 text is sampled");
  OptionValue increment =
      threshold_option(arguments.given.temperature_increment, 0.01,
                       std::numeric_limits<double>::max(), "0.01 or more, or none");
  options
      .add_advanced("--temperature-increment-on-fallback X", increment,
                    "after a failure decode again at a higher temperature, up to 1")
      .add_details("Or list them: --temperature 0,0.2,0.4");
  options.add_advanced("--beam-size N", integer_option(decoding.beam_size, bounds::kBeamSize),
                       "beams of the search at temperature 0");
  options.add_advanced("--patience X", number_option(decoding.patience, bounds::kPatience),
                       "the search ends when X texts for each beam are finished");
  options.add_advanced("--best-of N", integer_option(decoding.best_of, bounds::kBestOf),
                       "texts to sample above temperature 0; the best one is kept");
  options.add_advanced("--top-k N", integer_option(decoding.top_k, bounds::kTopK),
                       "sample only from the N most likely tokens; 0: from all");
  options.add_advanced("--top-p P", number_option(decoding.top_p, bounds::kProbability),
                       "sample only from the most likely tokens that sum to P");
  options.add_advanced("--min-p P", number_option(decoding.min_p, bounds::kProbability),
                       "sample only from tokens with at least P times the highest probability");
  options.add_advanced("--length-penalty X",
                       threshold_option(decoding.length_penalty, bounds::kLengthPenalty),
                       "divide scores by this power of the length; none: by the length");
  options.add_advanced("--repetition-penalty X",
                       number_option(decoding.repetition_penalty, bounds::kRepetitionPenalty),
                       "above 1, tokens sampled before become less likely");
  options.add_advanced("--no-repeat-ngram-size N",
                       integer_option(decoding.no_repeat_ngram_size, bounds::kNoRepeatNgramSize),
                       "no run of N tokens is repeated; 0: no limit");
  options.add_advanced("--seed N",
                       integer_option(decoding.seed, 0, std::numeric_limits<uint32_t>::max()),
                       "seed of the sampling");
  options.add_advanced("--compression-ratio-threshold X",
                       threshold_option(decoding.compression_ratio_threshold),
                       "text with a higher ratio has failed");
  options.add_advanced("--logprob-threshold X", threshold_option(decoding.logprob_threshold),
                       "text with a lower mean log-probability has failed");
  options.add_advanced("--no-speech-threshold X", threshold_option(decoding.no_speech_threshold),
                       "a window with a higher probability of no speech is silence");
  options.add_advanced("--reference", flag_option([] {}),
                       "use only the thresholds of openai-whisper, without the further rules "
                       "against text that was not spoken");
  options
      .add_advanced("--disable-rule NAME",
                    parsed_option([&](const std::string&, const std::string& text) {
                      disable_rule(decoding.policy, text);
                    }),
                    "switch one of the further rules off; a wrong name lists them")
      .sets("window rule");
  options.section("Prompts and suppressed tokens");
  options.add_advanced("--condition-on-previous-text BOOL",
                       truth_option(decoding.condition_on_previous_text),
                       "prompt a window with the text before it");
  options.add_advanced("--initial-prompt TEXT", text_option(decoding.initial_prompt),
                       "prompt the first window with names and words to expect");
  options.add_advanced("--carry-initial-prompt BOOL", truth_option(decoding.carry_initial_prompt),
                       "use the initial prompt in every window");
  options.add_advanced("--hotwords TEXT", text_option(decoding.hotwords),
                       "prompt every window with words to expect");
  options.add_advanced("--prefix TEXT", text_option(decoding.prefix),
                       "text that the recording begins with");
  options.add_advanced("--suppress-tokens LIST",
                       parsed_option([&](const std::string& option, const std::string& text) {
                         parse_suppressed(option, text, decoding);
                       }).with_default("-1"),
                       "token ids that are never sampled; -1: the model's list");
  options.add_advanced("--suppress-regex PATTERN", text_option(decoding.suppress_regex),
                       "suppress tokens whose whole text matches");
  options.add_advanced("--suppress-numerals", flag_option(decoding.suppress_numerals),
                       "suppress tokens with digits, %, $ or £");
  options.add_advanced("--grammar FILE", file_option(arguments.given.grammar_file),
                       "the text of each window is one of this grammar (GBNF)");
  options.add_advanced(
      "--regex PATTERN", parsed_option([&](const std::string&, const std::string& pattern) {
        decoding.grammar = GrammarOptions{.notation = GrammarNotation::kRegex, .text = pattern};
      }),
      "the text of each window matches this regular expression as a whole");
  options.exclude({"--grammar", "--regex", "--beam-size"});
  options.section("Parts and times of a recording");
  options.add_advanced("--clip-timestamps LIST",
                       parsed_option([&](const std::string& option, const std::string& text) {
                         decoding.clip_timestamps = parse_clips(option, text);
                       }),
                       "transcribe only these parts: start,end,... in seconds");
  options.add_advanced("--without-timestamps", flag_option(decoding.without_timestamps),
                       "make one segment of each window");
  options.add_advanced(
      "--max-initial-timestamp SECONDS",
      number_option(decoding.max_initial_timestamp_s, bounds::kMaxInitialTimestamp, "seconds"),
      "latest first timestamp of a window");
  options.add_advanced(
      "--max-new-tokens N",
      integer_option(decoding.max_new_tokens, bounds::kMaxTokens).with_default("224"),
      "largest number of tokens of a window");
}

void add_word_options(OptionTable& options, TranscribeArguments& arguments) {
  DecodingSettings& decoding = arguments.speech.decoding;
  SubtitleLayout& subtitles = arguments.writers.subtitles;
  options.section("Words and subtitles",
                  "Named as in openai-whisper or whisper.cpp; options that need the times of words "
                  "turn --word-timestamps on.");
  options
      .add("--word-timestamps", flag_option(decoding.word_timestamps),
           "find the time of each word (json, jsonl, lrc)")
      .add_details("Segments begin and end with their words.");
  options.add_advanced("--highlight-words", flag_option(subtitles.highlight_words),
                       "underline the spoken word (srt, vtt)");
  options.add_advanced("--max-words-per-line N",
                       integer_option(subtitles.max_words_per_line, 1, 1000),
                       "largest number of words of a cue (srt, vtt)");
  options.add_advanced("--max-line-width N", integer_option(subtitles.max_line_width, 1, 1000),
                       "longest line in characters (srt, vtt)");
  options
      .add_advanced("--max-line-count N", integer_option(subtitles.max_line_count, 1, 1000),
                    "largest number of lines of a cue, which may join segments (srt, vtt)")
      .needs("--max-line-width");
  options.add_advanced("--max-segment-length N",
                       integer_option(decoding.max_segment_length, bounds::kMaxSegmentLength),
                       "longest segment in characters (all formats)");
  options
      .add_advanced("--split-on-word", flag_option(decoding.split_on_word),
                    "cut such segments between words, not tokens")
      .needs("--max-segment-length");
  options
      .add_advanced("--color WHEN",
                    choice_option(arguments.given.color, {"never", "always", "auto"}),
                    "color words from red (improbable) to green (txt)")
      .add_details("auto: on a terminal, unless NO_COLOR is set.");
  options.add_advanced("--hallucination-silence-threshold SECONDS",
                       threshold_option(decoding.hallucination_silence_threshold_s,
                                        bounds::kHallucinationSilence, "seconds"),
                       "drop improbable text between longer silences");
  options.add_advanced("--prepend-punctuations CHARS",
                       text_option(decoding.punctuation.prepended).with_default(""),
                       "punctuation that belongs to the word after it");
  options.add_advanced("--append-punctuations CHARS",
                       text_option(decoding.punctuation.appended).with_default(""),
                       "punctuation that belongs to the word before it");
}

void add_speech_options(OptionTable& options, TranscribeArguments& arguments) {
  SpeechSettings& speech = arguments.given.speech;
  options.section("Voice activity",
                  "With the model silero-vad, which scripts/fetch-models.sh silero-vad fetches.");
  options.add("--vad", flag_option(arguments.given.vad),
              "transcribe only speech (model silero-vad)");
  options
      .add_advanced("--vad-threshold X", number_option(speech.threshold, bounds::kVadThreshold),
                    "probability at which speech begins")
      .needs("--vad");
  options
      .add_advanced(
          "--vad-min-speech-ms N",
          number_option(speech.min_speech_duration_ms, bounds::kVadDuration, "milliseconds"),
          "drop shorter speech")
      .needs("--vad");
  options
      .add_advanced(
          "--vad-min-silence-ms N",
          number_option(speech.min_silence_duration_ms, bounds::kVadDuration, "milliseconds"),
          "shorter silences do not end speech")
      .needs("--vad");
  options
      .add_advanced("--vad-max-speech-s X",
                    number_option(speech.max_speech_duration_s, bounds::kVadMaxSpeech, "seconds")
                        .with_default("no limit"),
                    "cut longer speech, at a silence if it has one")
      .needs("--vad");
  options
      .add_advanced("--vad-pad-ms N",
                    number_option(speech.speech_pad_ms, bounds::kVadDuration, "milliseconds"),
                    "silence to keep before and after speech")
      .needs("--vad");
  options.add_advanced(
      "--batch-size N", integer_option(arguments.session.batch_size, bounds::kBatchSize),
      "decode N recordings at once; with --vad also parts of one, cut at silences");
}

void check_inputs(const InputSelection& inputs) {
  if (inputs.named.empty() && !inputs.files_from) {
    throw Error(ErrorKind::kUsage, "expected at least one recording (see transcribe --help)");
  }
  const auto n_stdin = std::ranges::count(inputs.named, "-") + (inputs.files_from == "-");
  if (n_stdin > 1) throw Error(ErrorKind::kUsage, "standard input (-) can be read only once");
  if (std::ranges::count(inputs.named, "") > 0) {
    throw Error(ErrorKind::kUsage, "a recording's name is empty");
  }
}

void check_detection(const TranscribeArguments& arguments) {
  for (TranscriptFormat format : arguments.formats) {
    if (format != TranscriptFormat::kTxt && format != TranscriptFormat::kJson &&
        format != TranscriptFormat::kJsonl) {
      throw_usage("--detect-language", "--format txt, json or jsonl",
                  std::string(format_name(format)));
    }
  }
}

void check_stream(const TranscribeArguments& arguments) {
  const InputSelection& inputs = arguments.inputs;
  if (inputs.named.size() != 1 || inputs.recursive || inputs.files_from) {
    throw Error(ErrorKind::kUsage, "--stream: expected one recording, or - for standard input");
  }
}

void settle_decoding(const OptionTable& options, TranscribeArguments& arguments) {
  DecodingSettings& decoding = arguments.speech.decoding;
  if (options.is_given("--reference")) decoding.policy = WindowPolicy::reference();
  const std::optional<double>& increment = arguments.given.temperature_increment;
  std::vector<double>& temperatures = decoding.temperatures;
  if (!options.is_given("--temperature")) temperatures.resize(1);
  if (options.is_given("--temperature-increment-on-fallback") && increment &&
      temperatures.size() != 1) {
    throw Error(ErrorKind::kUsage,
                "--temperature-increment-on-fallback: expected a single --temperature, found " +
                    std::to_string(temperatures.size()));
  }
  if (increment && temperatures.size() == 1) {
    temperatures = rising_temperatures(temperatures.front(), *increment);
  }
  arguments.session.max_candidates = most_candidates(decoding);
}

void settle_sound(TranscribeArguments& arguments) {
  const TranscribeArguments::Given& given = arguments.given;
  if (given.diarize && (given.split_channels || arguments.reader.channel)) {
    throw Error(ErrorKind::kUsage, "--diarize: expected without --channels");
  }
  arguments.speech.channels = given.split_channels ? Channels::kSplit
                              : given.diarize      ? Channels::kDiarize
                                                   : Channels::kMix;
  if (given.pcm) {
    arguments.reader.raw = given.raw;
    arguments.reader.raw->encoding = *given.pcm;
  }
}

// Whether results go to standard output, or to files and where. Folders and lists of recordings
// become files; otherwise a single format goes to standard output unless there is a folder.
void settle_output(TranscribeArguments& arguments) {
  const std::string& folder = arguments.given.output_folder;
  const bool many = arguments.inputs.recursive || arguments.inputs.files_from || arguments.resume;
  arguments.to_stdout = folder == "-" || (folder.empty() && arguments.formats.size() == 1 && !many);
  if (!arguments.to_stdout) {
    if (!folder.empty()) arguments.output_folder = folder;
    return;
  }
  if (arguments.formats.size() > 1) {
    throw Error(ErrorKind::kUsage, "--output-dir: standard output (-) takes one format");
  }
  if (arguments.resume) {
    throw Error(ErrorKind::kUsage, "--resume: expected files to look for, found --output-dir -");
  }
}

void settle_words(TranscribeArguments& arguments) {
  DecodingSettings& decoding = arguments.speech.decoding;
  const SubtitleLayout& subtitles = arguments.writers.subtitles;
  const auto writes = [&](TranscriptFormat format) {
    return std::ranges::find(arguments.formats, format) != arguments.formats.end();
  };
  if (subtitles.of_words() && !writes(TranscriptFormat::kSrt) && !writes(TranscriptFormat::kVtt)) {
    const char* name = subtitles.highlight_words  ? "--highlight-words"
                       : subtitles.max_line_width ? "--max-line-width"
                                                  : "--max-words-per-line";
    throw Error(ErrorKind::kUsage,
                std::string(name) + ": expected srt or vtt among the formats (--format)");
  }
  arguments.writers.colors =
      arguments.to_stdout && writes(TranscriptFormat::kTxt) && wants_colors(arguments.given.color);
  decoding.word_timestamps = decoding.word_timestamps || subtitles.of_words() ||
                             decoding.max_segment_length ||
                             decoding.hallucination_silence_threshold_s || arguments.writers.colors;
}

}  // namespace

OptionTable transcribe_options(TranscribeArguments& arguments) {
  OptionTable options({
      .name = "transcribe",
      .usages = {"[OPTION]... RECORDING..."},
      .description =
          "Turns speech into text. A RECORDING is an audio file, or - for standard input.",
      .examples = {"transcribe -m tiny.en talk.wav",
                   "transcribe -m base -f srt,vtt,json talk.wav french.aiff *.flac -o subtitles/",
                   "transcribe -m base -f srt -r --resume lectures/ -o subtitles/",
                   "sox talk.wav -t wav - | transcribe -m tiny.en -"},
      .environment = {{"NO_COLOR", "If it is set and not empty, --color auto means never."}},
  });
  add_input_options(options, arguments);
  add_stream_options(options, arguments);
  add_language_options(options, arguments);
  add_word_options(options, arguments);
  add_speech_options(options, arguments);
  add_sound_options(options, arguments);
  add_search_options(options, arguments);
  options.section("Engine");
  options.add_engine_options(arguments.session.device, arguments.session.compute,
                             arguments.session.threads, arguments.offline);
  options.add_weights_option(arguments.session.weights.type);
  options.add_kv_type_option(arguments.session.kv_type);
  options.add_positional("RECORDING", arguments.inputs.named, Completion::kFile);
  return options;
}

std::optional<std::string> parse_transcribe_options(int argc, const char* const* argv,
                                                    TranscribeArguments& arguments) {
  OptionTable options = transcribe_options(arguments);
  if (auto answer = options.parse(argc, argv)) return answer;
  settle_decoding(options, arguments);
  if (const std::string& file = arguments.given.grammar_file; !file.empty()) {
    read_grammar(file, arguments.speech.decoding.grammar.emplace());
  }
  settle_sound(arguments);
  if (arguments.given.vad) arguments.speech.vad = arguments.given.speech;
  check_inputs(arguments.inputs);
  if (arguments.detect_language) check_detection(arguments);
  settle_output(arguments);
  settle_words(arguments);
  if (arguments.given.stream) {
    arguments.stream_step_s = arguments.given.stream_step_s;
    check_stream(arguments);
  }
  check_options(arguments.session);
  check_options(arguments.speech, arguments.detect_language ? SpeechTask::kDetectLanguage
                                  : arguments.stream_step_s ? SpeechTask::kLiveCaptions
                                                            : SpeechTask::kTranscribe);
  return std::nullopt;
}

}  // namespace vesper
