#include "decoder/transcriber.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "decoder/window_segments.h"
#include "error/error.h"

namespace vesper {
namespace {

constexpr double kFrameSeconds = 0.01;
constexpr double kTimestampSeconds = 0.02;

// How repetitive a text is: its bytes over its deflated bytes, as the reference measures it.
double compression_ratio(const std::string& text) {
  if (text.empty()) return 0;
  uLongf n_deflated = compressBound(text.size());
  std::vector<Bytef> deflated(n_deflated);
  if (compress(deflated.data(), &n_deflated, reinterpret_cast<const Bytef*>(text.data()),
               text.size()) != Z_OK) {
    throw Error(ErrorKind::kInternal, "zlib could not deflate a window's text");
  }
  return static_cast<double>(text.size()) / static_cast<double>(n_deflated);
}

std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\n\r\f\v";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

Transcriber::Language Transcriber::detect_language() {
  const std::vector<float> probabilities = model_.decoder().language_probabilities();
  const auto best = std::max_element(probabilities.begin(), probabilities.end());
  const auto index = static_cast<size_t>(best - probabilities.begin());
  return {whisper_languages()[index].code, *best};
}

std::string Transcriber::known_language(const std::string& name) const {
  const WhisperTokens& tokens = model_.tokens();
  const std::optional<int32_t> token = tokens.language_token(name);
  if (!token) throw Error(ErrorKind::kUsage, "--language: the model knows no '" + name + "'");
  const std::string code = tokens.language_of(*token)->code;
  if (!tokens.is_multilingual && code != "en") {
    throw Error(ErrorKind::kUsage, "--language: the model knows English only, not '" + name + "'");
  }
  return code;
}

std::vector<int32_t> Transcriber::start_sequence(const std::string& language,
                                                 const DecodingSettings& settings) const {
  const WhisperTokens& tokens = model_.tokens();
  std::vector<int32_t> sequence{tokens.sot};
  if (tokens.is_multilingual) {
    sequence.push_back(tokens.language_token(language).value());
    sequence.push_back(settings.translate ? tokens.translate : tokens.transcribe);
  }
  if (settings.without_timestamps) sequence.push_back(tokens.notimestamps);
  return sequence;
}

Transcript Transcriber::transcribe(const MelSpectrogram& mel, const DecodingSettings& settings,
                                   const std::function<void(const Segment&)>& on_segment,
                                   const std::function<void(double, double)>& on_progress) {
  const WhisperTokens& tokens = model_.tokens();
  const Tokenizer& tokenizer = model_.tokenizer();
  const uint32_t n_text_ctx = model_.decoder().n_text_ctx();
  const uint64_t n_content = mel.content_frames();
  const double total_s = static_cast<double>(n_content) * kFrameSeconds;

  std::vector<int32_t> suppressed = settings.suppress_tokens;
  if (settings.suppress_model_tokens) {
    suppressed.insert(suppressed.end(), model_.suppressed().begin(), model_.suppressed().end());
  }
  model_.decoder().set_suppressed(suppressed);

  Transcript transcript;
  transcript.duration_s = total_s;
  if (settings.language != "auto") {
    transcript.language = known_language(settings.language);
    transcript.language_probability = 1;
  } else if (!tokens.is_multilingual) {
    transcript.language = "en";
    transcript.language_probability = 1;
  }

  // Everything said so far, and where in it the next prompt may begin.
  std::vector<int32_t> said;
  if (const std::string prompt = trimmed(settings.initial_prompt); !prompt.empty()) {
    said = tokenizer.encode(" " + prompt);
  }
  size_t prompt_begin = 0;

  DecodeTask task;
  task.timestamps = !settings.without_timestamps;
  task.max_initial_timestamp =
      static_cast<uint32_t>(std::lround(settings.max_initial_timestamp_s / kTimestampSeconds));
  std::vector<float> window(size_t{model_.n_frames()} * model_.n_mels());

  for (uint64_t seek = 0; seek < n_content;) {
    if (on_progress) on_progress(static_cast<double>(seek) * kFrameSeconds, total_s);
    const auto n_frames =
        static_cast<uint32_t>(std::min<uint64_t>(model_.n_frames(), n_content - seek));
    MelWindow cut;
    cut.first_frame = seek;
    cut.n_frames = model_.n_frames();
    mel.window(cut, window.data());
    const float* const windows[] = {window.data()};
    model_.encode(windows);
    if (transcript.language.empty()) {
      const Language detected = detect_language();
      transcript.language = detected.code;
      transcript.language_probability = detected.probability;
    }

    const std::vector<int32_t> start = start_sequence(transcript.language, settings);
    task.prompt.clear();
    if (said.size() > prompt_begin) {
      const size_t n_previous = std::min<size_t>(said.size() - prompt_begin, n_text_ctx / 2 - 1);
      task.prompt.push_back(tokens.prev);
      task.prompt.insert(task.prompt.end(), said.end() - static_cast<std::ptrdiff_t>(n_previous),
                         said.end());
    }
    task.start_of_transcript = static_cast<uint32_t>(task.prompt.size());
    task.prompt.insert(task.prompt.end(), start.begin(), start.end());
    task.max_tokens =
        std::min(n_text_ctx / 2, n_text_ctx - static_cast<uint32_t>(task.prompt.size()) + 1);
    const DecodeResult result = model_.decoder().decode({&task, 1}).front();

    const bool is_silent =
        settings.no_speech_threshold && result.no_speech_prob > *settings.no_speech_threshold &&
        !(settings.logprob_threshold && result.avg_logprob() > *settings.logprob_threshold);
    if (is_silent) {
      seek += n_frames;
      continue;
    }

    const auto text_of = [&](const std::vector<int32_t>& ids) {
      std::vector<int32_t> spoken;
      std::copy_if(ids.begin(), ids.end(), std::back_inserter(spoken),
                   [&](int32_t id) { return id < tokens.eot; });
      return tokenizer.decode(spoken);
    };
    const double ratio = compression_ratio(trimmed(text_of(result.tokens)));
    const WindowSegments cut_segments =
        cut_window(result.tokens, tokens.timestamp_begin, seek, n_frames);
    for (const WindowSegment& part : cut_segments.segments) {
      Segment segment;
      segment.text = text_of(part.tokens);
      // Nothing said, or said in no time: neither shown nor part of the next prompt.
      if (part.start_s == part.end_s || trimmed(segment.text).empty()) continue;
      segment.id = static_cast<int>(transcript.segments.size());
      segment.seek = static_cast<int64_t>(seek);
      segment.start_s = part.start_s;
      segment.end_s = part.end_s;
      segment.tokens = part.tokens;
      segment.avg_logprob = result.avg_logprob();
      segment.no_speech_prob = result.no_speech_prob;
      segment.compression_ratio = ratio;
      segment.language = transcript.language;
      said.insert(said.end(), part.tokens.begin(), part.tokens.end());
      if (on_segment) on_segment(segment);
      transcript.segments.push_back(std::move(segment));
    }
    if (!settings.condition_on_previous_text) prompt_begin = said.size();
    seek += cut_segments.advance_frames;
  }
  if (on_progress) on_progress(total_s, total_s);
  return transcript;
}

}  // namespace vesper
