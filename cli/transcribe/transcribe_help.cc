#include "cli/transcribe/transcribe_help.h"

#include <string_view>

namespace vesper {
namespace {

// Lines of at most 80 columns, all of them. The screen of --help has at most 40.
constexpr std::string_view kScreen = R"(Usage: transcribe [OPTION]... RECORDING...
Turns speech into text. A RECORDING is an audio file, or - for standard input.

  -m, --model NAME|PATH  tiny, tiny.en, base (default), small, medium, large-v3,
                         turbo, ... (fetched when absent), or a file or folder
  -f, --format LIST      one or more of txt (default), srt, vtt, tsv, csv,
                         lrc, json, jsonl, with commas between; or all
  -o, --output-dir DIR   write files there; without DIR one format goes to
                         standard output (-), several go beside each recording
      --stream           live captions of what comes from standard input
  -r, --recursive        all recordings in folders; what is written lies beside
                         them, or in the same folders below DIR
      --resume           pass over recordings whose files are complete
  -l, --language NAME    spoken language: fr, french, auto (default: detected)
      --task TASK        transcribe (default), or translate into English
      --device DEVICE    auto (default), cpu, vulkan, vulkan:N
      --compute TYPE     auto (default), f32, f16, bf16, int8
  -t, --threads N        of the CPU (default: as many as it has cores)
      --offline          never fetch a model
  -q, --quiet            no progress and no notes
  -v, --verbose          say what is used and how long it took
      --word-timestamps  find out when each word is said: json, jsonl, lrc
      --vad              leave out what is not speech (model silero-vad)
      --version, -h, --help
      --help-all         these and all others: how speech is decoded, ...

Models are looked for in $VESPER_MODELS and in ~/.cache/vesper/models.
Exit status: 0 done, 2 usage, 3 input, 4 model, 5 device, 6 output.

  transcribe -m tiny.en talk.wav
  transcribe -m base -f srt,vtt,json talk.wav french.aiff *.flac -o subtitles/
  transcribe -m base -f srt -r --resume lectures/ -o subtitles/
  sox talk.wav -t wav - | transcribe -m tiny.en -
)";

constexpr std::string_view kManyFiles =
    R"(Many recordings; what is not in a folder by its extension is passed over:
      --files-from FILE   a path a line from FILE, or - for standard input; what
                          is written lies beside the recordings, or below DIR in
                          the same folders where paths are relative
  -0, --null              paths there end with a zero byte (find -print0)
      --jobs-json         progress on standard error as JSON, an object a line:
          {"event": "loaded", engine, elapsed_s}
          {"event": "start", file, index, count}
          {"event": "progress", file, index, count, done_s, total_s}
          {"event": "segment", file, id, start_s, end_s, text}
          {"event": "done", file, index, count, outputs, language, duration_s,
                            elapsed_s, speed}
          {"event": "skipped", file, index, count, outputs}
          {"event": "error", file, status, message}
          {"event": "summary", recordings, done, skipped, failed, audio_s,
                               elapsed_s, speed, status}
          {"event": "fetching", model, done_bytes, total_bytes}
          {"event": "note", message}
        Times are in seconds, index counts from 0, speed is audio_s / elapsed_s;
        file is null in an error that ends the whole run.
)";

constexpr std::string_view kSound =
    R"(Channels and raw sound:
      --channels WHICH    mix (default); split: each by itself, [left], [right]
                          or [channel N] before its text; left, right or a
                          number from 1: that one alone
      --diarize stereo    who speaks by the louder of two channels: (speaker 0),
                          (speaker 1), or (speaker ?)
      --pcm ENCODING      samples without a header: s16le or f32le, interleaved
      --pcm-rate HZ       of them (16000)
      --pcm-channels N    in them (1)
)";

constexpr std::string_view kStream =
    R"(Live captions, of standard input or a named pipe:
      --stream            words as soon as two looks at the sound agree on them;
                          with -f jsonl events: "partial" (may still change),
                          "final", "segment", "end"; see also --pcm
      --stream-step S     look every S seconds (1); later if the machine is slow
                          Ctrl-C ends the stream: what was heard is said to the
                          end, and files are complete; a second one ends all
  arecord -q -f S16_LE -r 16000 | transcribe -m base --stream -
  ffmpeg -i URL -f s16le -ar 16000 -ac 1 - | transcribe --stream --pcm s16le -
)";

constexpr std::string_view kLanguages =
    R"(Languages:
      --detect-language   only say which it is: code, probability and name, the
                          likeliest first; with -f json all of them
      --language-detection-segments N
                          look at up to N windows of 30 s (1), until
      --language-detection-threshold X
                          one gives a language more than X (0.5); else their
                          mean counts
      --multilingual      follow it where it changes, for mixed recordings
)";

constexpr std::string_view kSearch =
    R"(How speech is decoded, named as in openai-whisper or faster-whisper; "none"
switches a threshold off:
      --temperature T                     0 (default): likeliest; above: drawn
      --temperature-increment-on-fallback X
                                          after a failure try again this much
                                          hotter, up to 1 (0.2); or name all:
                                          --temperature 0,0.2,0.4
      --beam-size N                       beams of the search at 0 (5); with
                                          --stream of full windows alone
      --patience X                        it ends with X texts a beam (1)
      --best-of N                         drawn above 0, the best is kept (5)
      --length-penalty X                  power of the length that scores are
                                          divided by, 0 to 1 (none: their mean)
      --repetition-penalty X              above 1: repeats become unlikely (1)
      --no-repeat-ngram-size N            no N tokens in a row come twice (0)
      --seed N                            of what is drawn (0)
      --compression-ratio-threshold X     more than this is a failure (2.4)
      --logprob-threshold X               less than this is a failure (-1.0)
      --no-speech-threshold X             more than this is silence (0.6)
      --reference                         these thresholds alone, as openai-
                                          whisper: no rules of our own against
                                          what was never said, and loops
      --disable-rule NAME                 for experiments: without this one of
                                          those rules; a wrong name lists them
)";

constexpr std::string_view kPrompts =
    R"(What the model is told before, and what it may not say:
      --condition-on-previous-text BOOL   prompt with the text so far (true)
      --initial-prompt TEXT               names and words to expect at the start
      --carry-initial-prompt BOOL         and in every window (false)
      --hotwords TEXT                     words to expect in every window
      --prefix TEXT                       what the recording begins with
      --suppress-tokens LIST              ids; -1: the model's list (default)
      --suppress-regex PATTERN            and tokens that it matches as a whole
      --suppress-numerals                 and tokens with digits, %, $ or £
)";

constexpr std::string_view kTimes =
    R"(Which part of a recording, and its times:
      --clip-timestamps LIST              start,end,... in seconds: only these
      --without-timestamps                one segment for each window
      --max-initial-timestamp SECONDS     latest first time in a window (1.0)
      --max-new-tokens N                  at most so many tokens a window (224)
)";

constexpr std::string_view kSpeech =
    R"(Only what is speech (model silero-vad, from scripts/fetch-models.sh):
      --vad                         leave out silence, noise and music
      --vad-threshold X             probability from which on it is speech (0.5)
      --vad-min-speech-ms N         shorter is no speech (250)
      --vad-min-silence-ms N        shorter does not end it (2000)
      --vad-max-speech-s X          longer is cut, at a silence (no limit)
      --vad-pad-ms N                added before and after (400)
      --batch-size N                cut what is speech at silences and decode N
                                    parts at once, each by itself (1)
)";

constexpr std::string_view kWords =
    R"(Times of words and the layout of subtitles, named as in openai-whisper or
whisper.cpp; those below the first turn it on where they need it:
      --word-timestamps           when each word is said: json, jsonl, lrc;
                                  segments begin and end with their words
      --highlight-words           srt, vtt: underline the word being said
      --max-words-per-line N      srt, vtt: words of a cue
      --max-line-width N          srt, vtt: characters of a line
      --max-line-count N          srt, vtt: lines of a cue, with a width;
                                  cues go on from segment to segment then
      --max-segment-length N      all formats: characters of a segment
      --split-on-word             such segments end between words, not tokens
      --color WHEN                txt: words from red (improbable) to green;
                                  never (default), always, or auto: on a
                                  terminal, if NO_COLOR is not set
      --hallucination-silence-threshold SECONDS
                                  leave out improbable text between longer
                                  silences
      --prepend-punctuations CHARS
                                  marks that join the word after them
      --append-punctuations CHARS
                                  marks that join the word before them
)";

// What --help-all shows after the screen.
constexpr std::string_view kSections[] = {kManyFiles, kSound, kStream, kLanguages, kSearch,
                                          kPrompts,   kTimes, kWords,  kSpeech};

}  // namespace

std::string transcribe_help() { return std::string(kScreen); }

std::string transcribe_help_all() {
  std::string text(kScreen);
  for (std::string_view section : kSections) text.append("\n").append(section);
  return text;
}

}  // namespace vesper
