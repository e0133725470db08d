// The options of `transcribe`: what the session gets, which are refused, and the help, with the
// fake engine of fake_transcribe.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/transcribe_fixture.h"

namespace vesper::transcribe_options_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(TranscribeProgram, FindsModelsByNameInTheFoldersAndByPath) {
  const auto used = [&](const std::string& model) {
    write_file(folder_ / "work/s.wav", "!settings\n");
    const ChildResult result = run({"-m", model, "s.wav"});
    return result.status == 0 ? result.out.substr(0, result.out.find(" device")) : result.err;
  };
  EXPECT_EQ(used("small-one"), "model=small-one.bin");
  std::filesystem::create_directories(folder_ / "cache/vesper/models/tiny.en");
  EXPECT_THAT(run({"--offline", "-m", "tiny.en", "a.wav"}).err, HasSubstr("--offline"));
  write_file(folder_ / "cache/vesper/models/tiny.en/model.bin", "");
  EXPECT_EQ(used("tiny.en"), "model=tiny.en");
  write_file(folder_ / "models/ggml-tiny.en.bin", "");
  EXPECT_EQ(used("tiny.en"), "model=ggml-tiny.en.bin");
  write_file(folder_ / "models/ggml-large-v3-turbo.bin", "");
  EXPECT_EQ(used("turbo"), "model=ggml-large-v3-turbo.bin");
  EXPECT_EQ(used("../models/small-one.bin"), "model=small-one.bin");
  std::filesystem::create_directories(folder_ / "models/mine");
  write_file(folder_ / "models/mine/model-00001-of-00002.safetensors", "");
  EXPECT_EQ(used("mine"), "model=mine");
}

TEST_F(TranscribeProgram, PassesOptionsToTheSession) {
  write_file(folder_ / "work/s.wav", "!settings\n");
  EXPECT_EQ(transcribe({"s.wav"}).out,
            "model=small-one.bin device=auto compute=auto threads=0 language=auto translate=0 "
            "previous=1 temperatures=0;0.2;0.4;0.6;0.8;1; no_speech=0.600000 logprob=-1.000000 "
            "compression=2.400000 "
            "prompt= initial=1 without_timestamps=0 suppress_model=1 suppress=\n");
  EXPECT_EQ(transcribe({"--device",
                        "vulkan:1",
                        "--compute=bf16",
                        "-t3",
                        "-lFrench",
                        "--task",
                        "translate",
                        "--condition-on-previous-text",
                        "False",
                        "--temperature",
                        "0,0.2",
                        "--no-speech-threshold",
                        "none",
                        "--logprob-threshold",
                        "-0.5",
                        "--compression-ratio-threshold",
                        "3",
                        "--initial-prompt",
                        "Mr. X, Y",
                        "--max-initial-timestamp",
                        "0.5",
                        "--without-timestamps",
                        "--suppress-tokens",
                        "5,-1,7",
                        "s.wav"})
                .out,
            "model=small-one.bin device=vulkan:1 compute=bf16 threads=3 language=french "
            "translate=1 previous=0 temperatures=0;0.2; no_speech=none logprob=-0.500000 "
            "compression=3.000000 prompt=Mr. X, Y initial=0.5 without_timestamps=1 "
            "suppress_model=1 suppress=5;7;\n");
  EXPECT_THAT(transcribe({"--suppress-tokens", "", "s.wav"}).out, HasSubstr("suppress_model=0"));
  EXPECT_THAT(transcribe({"--suppress-tokens", "-1", "s.wav"}).out, HasSubstr("suppress_model=1"));
  EXPECT_THAT(transcribe({"-t", "2", "s.wav", "-t", "4"}).out, HasSubstr("threads=4"));
  // Names as in openai-whisper.
  EXPECT_THAT(transcribe({"--initial_prompt", "a_b", "--no_speech_threshold=0.5", "s.wav"}).out,
              AllOf(HasSubstr("prompt=a_b "), HasSubstr("no_speech=0.500000")));
}

TEST_F(TranscribeProgram, AcceptsNamesThatLookLikeOptionsAfterTwoDashes) {
  write_file(folder_ / "work/-x.wav", "dash\n");
  EXPECT_EQ(transcribe({"--", "-x.wav"}).out, "dash\n");
  write_file(folder_ / "work/--x_y.wav", "dashes\n");
  EXPECT_EQ(transcribe({"--", "--x_y.wav"}).out, "dashes\n");
}

TEST_F(TranscribeProgram, NamesInvalidOptions) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "expected at least one recording"},
      {{"--bogus", "a.wav"}, "--bogus"},
      {{"a.wav", "-m"}, "--model"},
      {{"-f", "docx", "a.wav"}, "docx"},
      {{"-f", "", "a.wav"}, "--format"},
      {{"-t", "0", "a.wav"}, "--threads"},
      {{"-t", "2x", "a.wav"}, "2x"},
      {{"-t", "99999999999999999999", "a.wav"}, "--threads"},
      {{"--device", "gpu", "a.wav"}, "--device"},
      {{"--device", "vulkan:N", "a.wav"}, "--device"},
      {{"--device", "vulkan:-1", "a.wav"}, "--device"},
      {{"--compute", "fp8", "a.wav"}, "--compute"},
      {{"--task", "sing", "a.wav"}, "--task"},
      {{"-l", "f2", "a.wav"}, "--language"},
      {{"--temperature", "0,,1", "a.wav"}, "--temperature"},
      {{"--temperature", "nan", "a.wav"}, "--temperature"},
      {{"--logprob-threshold", "inf", "a.wav"}, "--logprob-threshold"},
      {{"--condition-on-previous-text", "maybe", "a.wav"}, "--condition-on-previous-text"},
      {{"--suppress-tokens", "-2", "a.wav"}, "--suppress-tokens"},
      {{"--suppress-tokens", "4294967296", "a.wav"}, "--suppress-tokens"},
      {{"--max-initial-timestamp", "31", "a.wav"}, "--max-initial-timestamp"},
      {{"--beam-size", "17", "a.wav"}, "--beam-size: expected a number from 1 to 16"},
      {{"--patience", "2", "--beam-size", "1", "a.wav"},
       "--patience: expected a beam size above 1"},
      {{"--patience", "0.1", "--beam-size", "2", "a.wav"},
       "--patience: expected more: with 2 beams"},
      {{"--patience", "9", "--beam-size", "2", "a.wav"}, "--patience: expected a number from 0.01"},
      {{"--repetition-penalty", "0", "a.wav"}, "--repetition-penalty"},
      {{"--no-repeat-ngram-size", "-1", "a.wav"}, "--no-repeat-ngram-size"},
      {{"--top-p", "1.1", "a.wav"}, "--top-p: expected a number from 0 to 1"},
      {{"-o", "", "a.wav"}, "--output-dir"},
      {{""}, "empty"},
  };
  for (const auto& [arguments, message] : cases) {
    const ChildResult result = transcribe(arguments);
    expect_failure(result, 2, message);
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(TranscribeProgram, PrintsShortAndFullHelp) {
  EXPECT_EQ(run({"--help"}).out, run({"-h"}).out);
  const std::vector<const char*> on_the_screen = {
      "--model",   "--format",   "--output-dir", "--language", "--task",    "--device",
      "--compute", "--threads",  "--offline",    "--quiet",    "--verbose", "--version",
      "--vad",     "--help-all", "--recursive",  "--resume",   "--stream",  "--word-timestamps"};
  const std::vector<const char*> others = {"--stream-step",
                                           "--files-from",
                                           "--channels",
                                           "--diarize",
                                           "--pcm",
                                           "--pcm-rate",
                                           "--pcm-channels",
                                           "--detect-language",
                                           "--language-detection-segments",
                                           "--language-detection-threshold",
                                           "--multilingual",
                                           "--null",
                                           "--jobs-json",
                                           "--vad-threshold",
                                           "--vad-min-speech-ms",
                                           "--vad-min-silence-ms",
                                           "--vad-max-speech-s",
                                           "--vad-pad-ms",
                                           "--temperature",
                                           "--temperature-increment-on-fallback",
                                           "--best-of",
                                           "--batch-size",
                                           "--beam-size",
                                           "--patience",
                                           "--repetition-penalty",
                                           "--no-repeat-ngram-size",
                                           "--top-k",
                                           "--top-p",
                                           "--min-p",
                                           "--suppress-regex",
                                           "--suppress-numerals",
                                           "--grammar",
                                           "--regex",
                                           "--length-penalty",
                                           "--seed",
                                           "--compression-ratio-threshold",
                                           "--logprob-threshold",
                                           "--no-speech-threshold",
                                           "--condition-on-previous-text",
                                           "--initial-prompt",
                                           "--carry-initial-prompt",
                                           "--hotwords",
                                           "--prefix",
                                           "--clip-timestamps",
                                           "--without-timestamps",
                                           "--max-initial-timestamp",
                                           "--max-new-tokens",
                                           "--suppress-tokens",
                                           "--highlight-words",
                                           "--max-words-per-line",
                                           "--max-line-width",
                                           "--max-line-count",
                                           "--max-segment-length",
                                           "--split-on-word",
                                           "--color",
                                           "--hallucination-silence-threshold",
                                           "--prepend-punctuations",
                                           "--append-punctuations"};
  for (const char* screen : {"--help", "--help-all"}) {
    const ChildResult help = run({screen});
    EXPECT_EQ(help.status, 0);
    for (const char* option : on_the_screen) EXPECT_THAT(help.out, HasSubstr(option));
    std::istringstream lines(help.out);
    int n_lines = 0;
    for (std::string line; std::getline(lines, line); ++n_lines) {
      EXPECT_LE(line.size(), 80u) << line;
    }
    if (std::string(screen) == "--help") {
      EXPECT_LE(n_lines, 40);
    } else {
      for (const char* option : others) EXPECT_THAT(help.out, HasSubstr(option));
    }
  }
}

TEST_F(TranscribeProgram, PassesSearchAndPromptOptions) {
  write_file(folder_ / "work/s.wav", "!search\n");
  EXPECT_EQ(transcribe({"s.wav"}).out,
            "candidates=5 temperatures=0;0.2;0.4;0.6;0.8;1; best_of=5 length_penalty=none seed=0 "
            "beams=5 patience=1 repetition=1 ngram=0 top_k=0 top_p=1 min_p=0 regex= numerals=0 "
            "carry=0 hotwords= prefix= clips= "
            "max_new_tokens=0\n");
  EXPECT_THAT(transcribe({"--temperature-increment-on-fallback=none", "s.wav"}).out,
              HasSubstr("candidates=5 temperatures=0; "));
  EXPECT_EQ(transcribe({"--temperature=0.1",
                        "--temperature-increment-on-fallback=0.3",
                        "--best-of=7",
                        "--length-penalty=0.5",
                        "--seed=9",
                        "--beam-size=3",
                        "--patience=2",
                        "--repetition-penalty=1.2",
                        "--no-repeat-ngram-size=4",
                        "--top-k=8",
                        "--top-p=0.9",
                        "--min-p=0.01",
                        "--suppress-regex=.*a",
                        "--suppress-numerals",
                        "--carry-initial-prompt=true",
                        "--hotwords=red fox",
                        "--prefix=Dear Sir",
                        "--clip-timestamps=0,2.5,7",
                        "--max-new-tokens=30",
                        "s.wav"})
                .out,
            "candidates=7 temperatures=0.1;0.4;0.7;1; best_of=7 length_penalty=0.500000 seed=9 "
            "beams=3 patience=2 repetition=1.2 ngram=4 top_k=8 top_p=0.9 min_p=0.01 regex=.*a "
            "numerals=1 carry=1 hotwords=red fox "
            "prefix=Dear Sir "
            "clips=0;2.5;7; max_new_tokens=30\n");
}

TEST_F(TranscribeProgram, PassesWordOptions) {
  write_file(folder_ / "work/s.wav", "!words\n");
  const std::string marks = " prepended=\"'“¿([{- appended=\"'.。,，!！?？:：”)]}、\n";
  EXPECT_EQ(transcribe({"s.wav"}).out, "words=0 silence=none length=0 split_on_word=0" + marks);
  EXPECT_EQ(transcribe({"--word-timestamps", "s.wav"}).out,
            "words=1 silence=none length=0 split_on_word=0" + marks);
  EXPECT_EQ(transcribe({"--prepend-punctuations=#", "--append-punctuations=~", "s.wav"}).out,
            "words=0 silence=none length=0 split_on_word=0 prepended=# appended=~\n");
  // Settings that need word times turn them on.
  EXPECT_THAT(transcribe({"--hallucination-silence-threshold=2", "s.wav"}).out,
              HasSubstr("words=1 silence=2.000000"));
  EXPECT_THAT(transcribe({"--max-segment-length=999", "s.wav"}).out,
              HasSubstr("words=1 silence=none length=999 split_on_word=0"));
  EXPECT_THAT(transcribe({"--max-segment-length=999", "--split-on-word", "s.wav"}).out,
              HasSubstr("length=999 split_on_word=1"));
  for (const char* option :
       {"--highlight-words", "--max-words-per-line=50", "--max-line-width=500"}) {
    EXPECT_THAT(transcribe({"-f", "srt", option, "s.wav"}).out, HasSubstr("words=1")) << option;
  }
  EXPECT_THAT(transcribe({"--color=always", "s.wav"}).out, HasSubstr("words=1"));
  // Only on a terminal.
  EXPECT_THAT(transcribe({"--color=auto", "s.wav"}).out, HasSubstr("words=0"));
}

TEST_F(TranscribeProgram, PassesSubtitleOptions) {
  write_file(folder_ / "work/s.wav", "one two three\n");
  const auto srt = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"-f", "srt", "s.wav"});
    return transcribe(options).out;
  };
  EXPECT_THAT(srt({}), HasSubstr("\none two three\n"));
  EXPECT_THAT(srt({"--max-words-per-line=2"}), HasSubstr("\none two\n\n2\n"));
  EXPECT_THAT(srt({"--max-line-width=7"}), HasSubstr("\none two\nthree\n"));
  EXPECT_THAT(srt({"--max-line-width=7", "--max-line-count=1"}), HasSubstr("\none two\n\n2\n"));
  EXPECT_THAT(srt({"--highlight-words"}), HasSubstr("\none <u>two</u> three\n"));
  // The same in files and on standard output.
  ASSERT_EQ(transcribe({"--max-words-per-line=2", "-f", "srt,vtt", "s.wav"}).status, 0);
  EXPECT_THAT(read_file(folder_ / "work/s.srt"), HasSubstr("\none two\n\n2\n"));
  EXPECT_THAT(read_file(folder_ / "work/s.vtt"), HasSubstr("\none two\n\n"));
}

TEST_F(TranscribeProgram, RefusesWordOptionsWithoutEffect) {
  expect_failure(transcribe({"--highlight-words", "a.wav"}), 2,
                 "--highlight-words: expected srt or vtt");
  expect_failure(transcribe({"-f", "srt", "--max-line-count", "2", "a.wav"}), 2,
                 "--max-line-count: expected together with --max-line-width");
  expect_failure(transcribe({"--split-on-word", "a.wav"}), 2,
                 "--split-on-word: expected together with --max-segment-length");
  expect_failure(transcribe({"--color", "red", "a.wav"}), 2, "--color: expected one of");
  expect_failure(transcribe({"-f", "srt", "--max-line-width", "0", "a.wav"}), 2,
                 "--max-line-width: expected a number from 1 to 1000");
  expect_failure(transcribe({"--hallucination-silence-threshold", "x", "a.wav"}), 2,
                 "--hallucination-silence-threshold: expected seconds");
}

TEST_F(TranscribeProgram, PassesVadOptionsAndModel) {
  write_file(folder_ / "work/s.wav", "!vad\n");
  // A file of this name in the working folder is only taken if it is asked for.
  write_file(folder_ / "work/silero-vad", "");
  EXPECT_EQ(transcribe({"s.wav"}).out, "none\n");
  EXPECT_THAT(transcribe({"--vad", "s.wav"}).out, HasSubstr("model=silero-vad"));
  std::filesystem::remove(folder_ / "work/silero-vad");
  const ChildResult missing = transcribe({"--vad", "s.wav"});
  expect_failure(missing, 4, "model \"silero-vad\" is not in ");
  EXPECT_THAT(missing.err, HasSubstr("scripts/fetch-models.sh silero-vad"));
  std::filesystem::create_directories(folder_ / "models/silero-vad");
  write_file(folder_ / "models/silero-vad/silero_vad_16k.safetensors", "");
  EXPECT_EQ(transcribe({"s.wav"}).out,
            "in doubt " + (folder_ / "models/silero-vad").string() + "\n");
  EXPECT_EQ(transcribe({"--vad", "s.wav"}).out,
            "model=silero-vad threshold=0.5 min_speech=250 min_silence=2000 max_speech=inf pad=400 "
            "batch=1\n");
  EXPECT_EQ(transcribe({"--vad", "--vad-threshold", "0.6", "--vad-min-speech-ms", "100",
                        "--vad-min-silence-ms=500", "--vad-max-speech-s=20", "--vad-pad-ms", "30",
                        "--batch-size", "8", "s.wav"})
                .out,
            "model=silero-vad threshold=0.6 min_speech=100 min_silence=500 max_speech=20 pad=30 "
            "batch=8\n");
  expect_failure(transcribe({"--vad-pad-ms", "30", "s.wav"}), 2,
                 "--vad-pad-ms: expected together with --vad");
  expect_failure(transcribe({"--vad", "--vad-threshold", "2", "s.wav"}), 2,
                 "--vad-threshold: expected a number from 0.01 to 0.99, found \"2\"");
}

TEST_F(TranscribeProgram, PassesAudioOptions) {
  write_file(folder_ / "work/s.wav", "!sound\n");
  EXPECT_EQ(transcribe({"s.wav"}).out, "split=0 label=0 channel=-1\n");
  EXPECT_EQ(transcribe({"--channels", "split", "s.wav"}).out, "split=1 label=0 channel=-1\n");
  EXPECT_EQ(transcribe({"--channels", "2", "s.wav"}).out, "split=0 label=0 channel=1\n");
  EXPECT_EQ(transcribe({"--channels", "left", "s.wav"}).out, "split=0 label=0 channel=0\n");
  EXPECT_EQ(transcribe({"--channels=split", "--channels=mix", "s.wav"}).out,
            "split=0 label=0 channel=-1\n");
  EXPECT_EQ(transcribe({"--diarize", "stereo", "s.wav"}).out, "split=0 label=1 channel=-1\n");
  EXPECT_EQ(transcribe({"--pcm", "s16le", "s.wav"}).out,
            "split=0 label=0 channel=-1 raw=s16le,16000,1\n");
  EXPECT_EQ(transcribe({"--pcm", "f32le", "--pcm-rate=48000", "--pcm-channels", "2", "s.wav"}).out,
            "split=0 label=0 channel=-1 raw=f32le,48000,2\n");
  expect_failure(transcribe({"--channels", "0", "s.wav"}), 2, "--channels: expected");
  expect_failure(transcribe({"--diarize", "mono", "s.wav"}), 2, "--diarize");
  expect_failure(transcribe({"--diarize", "stereo", "--channels", "1", "s.wav"}), 2,
                 "--diarize: expected without --channels");
  expect_failure(transcribe({"--pcm", "mp3", "s.wav"}), 2, "--pcm");
  expect_failure(transcribe({"--pcm-rate", "8000", "s.wav"}), 2, "together with --pcm");
}

TEST_F(TranscribeProgram, DetectsTheLanguageOnly) {
  write_file(folder_ / "work/s.wav", "fr\nbonjour\n");
  write_file(folder_ / "work/t.wav", "en\nhello\n");
  EXPECT_EQ(transcribe({"--detect-language", "--language-detection-threshold=0.75", "s.wav"}).out,
            "fr\t0.7500\tfrench\nde\t0.0150\tgerman\n");
  EXPECT_EQ(transcribe({"--detect-language", "s.wav", "t.wav"}).out,
            "s.wav\tfr\t0.5000\tfrench\ns.wav\tde\t0.0150\tgerman\n"
            "t.wav\ten\t0.5000\tenglish\nt.wav\tde\t0.0150\tgerman\n");
  const auto json =
      nlohmann::json::parse(transcribe({"--detect-language", "-f", "json", "t.wav"}).out);
  EXPECT_EQ(json["language"], "en");
  EXPECT_EQ(json["language_probability"], 0.5);
  EXPECT_EQ(json["probabilities"].size(), 3u);
  EXPECT_EQ(json["file"], "t.wav");
  EXPECT_EQ(transcribe({"--detect-language", "-o", "out", "s.wav"}).status, 0);
  EXPECT_EQ(read_file(folder_ / "work/out/s.txt"), "fr\t0.5000\tfrench\nde\t0.0150\tgerman\n");
  expect_failure(transcribe({"--detect-language", "-l", "fr", "s.wav"}), 2,
                 "--language: expected not to be set");
  expect_failure(transcribe({"--detect-language", "-f", "srt", "s.wav"}), 2, "json or jsonl");
}

TEST_F(TranscribeProgram, PassesLanguageOptions) {
  write_file(folder_ / "work/s.wav", "!languages\n");
  EXPECT_EQ(transcribe({"s.wav"}).out, "multilingual=0 segments=1 threshold=0.5\n");
  EXPECT_EQ(transcribe({"--multilingual", "--language-detection-segments", "4",
                        "--language-detection-threshold", "0.7", "s.wav"})
                .out,
            "multilingual=1 segments=4 threshold=0.7\n");
  expect_failure(transcribe({"--multilingual", "-l", "fr", "s.wav"}), 2, "--multilingual");
  expect_failure(transcribe({"--language-detection-segments", "0", "s.wav"}), 2,
                 "--language-detection-segments");
}
}  // namespace
}  // namespace vesper::transcribe_options_test
