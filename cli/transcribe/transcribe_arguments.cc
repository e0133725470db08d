#include "cli/transcribe/transcribe_arguments.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "cli/terminal/command_line.h"
#include "cli/terminal/option_values.h"
#include "cli/transcribe/decoding_options.h"
#include "cli/transcribe/sound_options.h"
#include "cli/transcribe/transcribe_help.h"
#include "cli/transcribe/vad_options.h"
#include "cli/transcribe/word_options.h"
#include "error/error.h"

namespace vesper {
namespace {

std::string parse_device(const std::string& text) {
  constexpr std::string_view kNumbered = "vulkan:";
  if (text.compare(0, kNumbered.size(), kNumbered) == 0) {
    parse_integer("--device", text.substr(kNumbered.size()), 0, 255,
                  "vulkan:N with N from 0 to 255");
    return text;
  }
  return parse_choice("--device", text, {"auto", "cpu", "vulkan", "vulkan:N"});
}

void check_inputs(const InputSelection& inputs) {
  if (inputs.named.empty() && !inputs.files_from) {
    throw Error(ErrorKind::kUsage, "expected at least one recording (see transcribe --help)");
  }
  if (inputs.null_separated && !inputs.files_from) {
    throw Error(ErrorKind::kUsage, "--null: expected together with --files-from");
  }
  const auto n_stdin = std::ranges::count(inputs.named, "-") + (inputs.files_from == "-");
  if (n_stdin > 1) throw Error(ErrorKind::kUsage, "standard input (-) can be read only once");
  if (std::ranges::count(inputs.named, "") > 0) {
    throw Error(ErrorKind::kUsage, "a recording's name is empty");
  }
}

void check_detection(const TranscribeArguments& arguments) {
  constexpr const char* kOption = "--detect-language: ";
  if (arguments.speech.decoding.language != "auto") {
    throw Error(ErrorKind::kUsage, std::string(kOption) + "expected without --language");
  }
  if (arguments.speech.channels != Channels::kMix) {
    throw Error(ErrorKind::kUsage,
                std::string(kOption) + "expected without --channels split and --diarize");
  }
  for (TranscriptFormat format : arguments.formats) {
    if (format != TranscriptFormat::kTxt && format != TranscriptFormat::kJson &&
        format != TranscriptFormat::kJsonl) {
      throw_usage("--detect-language", "--format txt, json or jsonl",
                  std::string(format_name(format)));
    }
  }
}

void check_stream(const TranscribeArguments& arguments) {
  const auto refuse = [](bool found, const char* what) {
    if (found) throw Error(ErrorKind::kUsage, std::string("--stream: expected ") + what);
  };
  const InputSelection& inputs = arguments.inputs;
  refuse(inputs.named.size() != 1 || inputs.recursive || inputs.files_from,
         "one recording, or - for standard input");
  refuse(arguments.resume, "without --resume");
  refuse(arguments.detect_language, "without --detect-language");
  refuse(arguments.speech.vad.has_value(), "without --vad");
  refuse(arguments.speech.channels != Channels::kMix, "without --channels split and --diarize");
  refuse(!arguments.speech.decoding.clip_timestamps.empty(), "without --clip-timestamps");
  refuse(arguments.speech.decoding.word_timestamps, "without --word-timestamps and what needs it");
  refuse(arguments.speech.decoding.max_segment_length.has_value(), "without --max-segment-length");
}

// Whether results go to standard output, or to files and where. Who transcribes folders and lists
// wants files; else a single format goes to standard output unless there is a folder.
void settle_output(const std::string& folder, TranscribeArguments& arguments) {
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

}  // namespace

TranscribeCommand parse_transcribe_arguments(int argc, const char* const* argv) {
  TranscribeCommand command;
  TranscribeArguments& arguments = command.arguments;

  CommandLine line("transcribe");
  line.add_question("--help-all", transcribe_help_all());
  line.add_question("-h,--help", transcribe_help());
  line.add_flag("-r,--recursive", arguments.inputs.recursive);
  line.add_flag("-0,--null", arguments.inputs.null_separated);
  bool stream = false;
  double stream_step_s = 1;
  line.add_flag("--stream", stream);
  line.add_flag("--detect-language", arguments.detect_language);
  line.add_flag("--resume", arguments.resume);
  line.add_flag("--jobs-json", arguments.jobs_json);
  line.add_flag("--offline", arguments.offline);
  line.add_flag("-q,--quiet", arguments.quiet);
  line.add_flag("-v,--verbose", arguments.verbose);
  const auto option = [&](const char* names, std::function<void(const std::string&)> take) {
    line.add_value(names, take);
  };
  std::string output_folder;
  option("-m,--model", [&](const std::string& text) { arguments.model = text; });
  option("-f,--format", [&](const std::string& text) { arguments.formats = parse_formats(text); });
  option("-o,--output-dir", [&](const std::string& text) {
    if (text.empty()) throw_usage("--output-dir", "a folder", text);
    output_folder = text;
  });
  option("--files-from", [&](const std::string& text) {
    if (text.empty()) throw_usage("--files-from", "a file, or -", text);
    arguments.inputs.files_from = text;
  });
  bool step_is_given = false;
  option("--stream-step", [&](const std::string& text) {
    step_is_given = true;
    stream_step_s = parse_number("--stream-step", text, 0.2, 20, "seconds from 0.2 to 20");
  });
  option("--device",
         [&](const std::string& text) { arguments.session.device = parse_device(text); });
  option("--compute", [&](const std::string& text) {
    arguments.session.compute =
        parse_choice("--compute", text, {"auto", "f32", "f16", "bf16", "int8"});
  });
  option("-t,--threads", [&](const std::string& text) {
    arguments.session.threads = static_cast<unsigned>(parse_integer("--threads", text, 1, 1024));
  });
  option("--batch-size", [&](const std::string& text) {
    arguments.session.batch_size =
        static_cast<unsigned>(parse_integer("--batch-size", text, 1, 64));
  });
  DecodingOptions decoding(line, arguments.speech.decoding);
  VadOptions speech(line);
  WordOptions words(line);
  SoundOptions sound(line);
  line.add_texts("recordings", arguments.inputs.named);

  command.answer = line.parse(argc, argv);
  if (command.answer) return command;
  decoding.finish();
  arguments.session.max_candidates = most_candidates(arguments.speech.decoding);
  arguments.speech.vad = speech.finish();
  sound.finish(arguments.reader, arguments.speech.channels);
  if (arguments.session.batch_size > 1 && !arguments.speech.vad) {
    throw Error(ErrorKind::kUsage,
                "--batch-size: expected together with --vad, which finds the silences to cut at");
  }
  check_inputs(arguments.inputs);
  if (arguments.detect_language) check_detection(arguments);
  settle_output(output_folder, arguments);
  words.finish(arguments.formats, arguments.to_stdout, arguments.speech.decoding,
               arguments.writers);
  if (stream) {
    arguments.stream_step_s = stream_step_s;
    check_stream(arguments);
  } else if (step_is_given) {
    throw Error(ErrorKind::kUsage, "--stream-step: expected together with --stream");
  }
  return command;
}

}  // namespace vesper
