#include "decoder/windows/transcriber.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "decoder/suppressed_tokens.h"
#include "decoder/transcript/segment_cutting.h"
#include "decoder/windows/repetition.h"
#include "decoder/windows/speech_evidence.h"
#include "decoder/windows/window_segments.h"
#include "decoder/words/word_times.h"
#include "error/error.h"

namespace vesper {
namespace {

// The reasons in Transcript::dropped.
constexpr const char* kNoSpeech = "no speech";
constexpr const char* kLoop = "loop";

// Silence beside the loudest of the recording: nothing for a model to hear.
bool is_uniform(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [&](float x) { return x == values.front(); });
}

// Frames [begin, end).
struct Clip {
  uint64_t begin, end;
};

std::vector<Clip> clips_of(const std::vector<double>& seconds, uint64_t n_content) {
  const auto frame = [&](size_t i) {
    if (i >= seconds.size()) return i == 0 ? 0 : n_content;
    const double at = std::nearbyint(std::max(0.0, seconds[i]) / kFrameSeconds);
    return at < static_cast<double>(n_content) ? static_cast<uint64_t>(at) : n_content;
  };
  std::vector<Clip> clips;
  for (size_t i = 0; i == 0 || i < seconds.size(); i += 2)
    clips.push_back({frame(i), frame(i + 1)});
  return clips;
}

}  // namespace

Search search_of(const DecodingSettings& settings, double temperature) {
  Search search;
  search.temperature = temperature;
  search.length_penalty = settings.length_penalty;
  search.repetition_penalty = settings.repetition_penalty;
  search.no_repeat_ngram_size = settings.no_repeat_ngram_size;
  if (search.temperature > 0) {
    search.n_candidates = settings.best_of;
  } else if (settings.beam_size > 1) {
    search.n_candidates = settings.beam_size;
    search.max_finished = most_finished(settings);
  }
  return search;
}

uint32_t attempt_seed(uint32_t window_seed, size_t attempt) {
  return mix_bits(window_seed + static_cast<uint32_t>(attempt));
}

Transcriber::Language Transcriber::detect_language(std::optional<uint32_t> place) {
  WhisperDecoder& decoder = model_.decoder();
  const std::vector<float> probabilities =
      place ? decoder.language_probabilities(*place) : decoder.language_probabilities();
  const auto best = std::max_element(probabilities.begin(), probabilities.end());
  const auto index = static_cast<size_t>(best - probabilities.begin());
  return {whisper_languages()[index].code, *best};
}

std::vector<LanguageProbability> Transcriber::detect_languages(const MelSpectrogram& mel,
                                                               const DecodingSettings& settings) {
  if (!model_.tokens().is_multilingual) {
    throw Error(ErrorKind::kUsage, "the model knows English only: there is no language to detect");
  }
  const Clip clip = clips_of(settings.clip_timestamps, mel.content_frames()).front();
  LanguageVote vote(settings.language_detection_threshold);
  std::vector<float> window(size_t{model_.n_frames()} * model_.n_mels());
  MelFrames cut;
  cut.first_frame = clip.begin;
  cut.n_frames = model_.n_frames();
  cut.end_frame = clip.end;
  for (uint32_t i = 0; i < settings.language_detection_segments; ++i) {
    mel.window(cut, window.data());
    const float* const windows[] = {window.data()};
    model_.encode(windows);
    if (vote.add(model_.decoder().language_probabilities())) break;
    cut.first_frame += model_.n_frames();
    if (cut.first_frame >= clip.end) break;
  }
  return ranked_languages(vote.result());
}

std::vector<float> Transcriber::languages_in(const MelSpectrogram& mel, const MelFrames& part,
                                             std::vector<float>& window) {
  mel.window(part, window.data());
  const size_t n = std::min<size_t>(part.end_frame - part.first_frame, model_.n_frames());
  if (is_uniform({window.data(), n * model_.n_mels()})) return {};
  const float* const windows[] = {window.data()};
  model_.encode(windows);
  return model_.decoder().language_probabilities();
}

size_t Transcriber::number_of_language(const std::string& code) {
  const auto languages = whisper_languages();
  const auto is_it = [&](const auto& language) { return language.code == code; };
  return static_cast<size_t>(std::ranges::find_if(languages, is_it) - languages.begin());
}

void Transcriber::require_languages(const DecodingSettings& settings) const {
  if (!settings.multilingual || model_.tokens().is_multilingual) return;
  throw Error(ErrorKind::kUsage, "--multilingual: the model knows English only");
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

DecodeTask Transcriber::task_for(const PromptHistory& history, const std::string& language,
                                 bool is_first, const DecodingSettings& settings) const {
  const uint32_t n_text_ctx = model_.decoder().n_text_ctx(), most = n_text_ctx / 2;
  DecodeTask task;
  task.timestamps = !settings.without_timestamps;
  task.max_initial_timestamp =
      static_cast<uint32_t>(std::lround(settings.max_initial_timestamp_s / kTimestampSeconds));
  task.prompt = history.before_next();
  task.start_of_transcript = static_cast<uint32_t>(task.prompt.size());
  const std::vector<int32_t> start = start_sequence(language, settings);
  task.prompt.insert(task.prompt.end(), start.begin(), start.end());
  task.max_tokens = std::min(settings.max_new_tokens.value_or(most), most);
  if (is_first) {
    std::vector<int32_t> given = tokens_of_phrase(model_.tokenizer(), settings.prefix);
    if (!given.empty() && task.timestamps) {
      given.insert(given.begin(), model_.tokens().timestamp_begin);
    }
    // At least one token is the model's own.
    if (given.size() >= most) given.resize(most - 1);
    task.n_given = static_cast<uint32_t>(given.size());
    task.max_tokens = std::min(task.max_tokens + task.n_given, most);
    task.prompt.insert(task.prompt.end(), given.begin(), given.end());
  }
  const auto n_prompt = static_cast<uint32_t>(task.prompt.size()) - task.n_given;
  task.max_tokens = std::min(task.max_tokens, n_text_ctx - n_prompt + 1);
  return task;
}

std::vector<int32_t> Transcriber::spoken(const std::vector<int32_t>& ids) const {
  std::vector<int32_t> spoken;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(spoken),
               [&](int32_t id) { return id < model_.tokens().eot; });
  return spoken;
}

std::string Transcriber::text_of(const std::vector<int32_t>& ids) const {
  return model_.tokenizer().decode(spoken(ids));
}

void Transcriber::drop_loop(WindowSegments& window, uint64_t seek, Transcript& transcript) const {
  const std::vector<WindowSegment> looped = take_loop(window.segments, model_.tokens().eot);
  if (looped.empty()) return;
  // What follows the text before the loop is worth a window of its own, if that text is not so
  // short that it would be much the same window again.
  constexpr double kWorthAnotherS = 5;
  const double start_s = static_cast<double>(seek) * kFrameSeconds;
  if (!window.segments.empty()) {
    const double kept_end_s = window.segments.back().end_s;
    if (kept_end_s >= start_s + kWorthAnotherS && kept_end_s <= looped.front().start_s) {
      window.advance_frames =
          static_cast<uint32_t>(std::lround((kept_end_s - start_s) / kFrameSeconds));
      window.to_the_end = false;
      return;
    }
  }
  window.to_the_end = true;
  std::string text;
  for (const WindowSegment& segment : looped) text += text_of(segment.tokens);
  transcript.dropped.push_back({looped.front().start_s, looped.back().end_s, kLoop, trimmed(text)});
}

std::vector<std::string_view> Transcriber::spelled(const std::vector<int32_t>& ids) const {
  std::vector<std::string_view> bytes;
  for (int32_t id : ids) {
    if (id < model_.tokens().eot) bytes.push_back(model_.tokenizer().bytes_of(id));
  }
  return bytes;
}

void Transcriber::add_word_times(std::vector<Segment>& segments, const WindowPlace& window,
                                 uint32_t place, const DecodingSettings& settings) {
  constexpr uint32_t kFramesPerPosition = 2;
  const std::string& language = segments.front().language;
  AlignmentTask task;
  task.start = start_sequence(language, settings);
  if (task.start.back() == model_.tokens().notimestamps) task.start.pop_back();
  task.n_positions = window.n_frames / kFramesPerPosition;
  task.window = place;
  for (const Segment& segment : segments) {
    std::ranges::copy_if(segment.tokens, std::back_inserter(task.text),
                         [&](int32_t token) { return token < model_.tokens().eot; });
  }
  if (task.text.empty() || task.n_positions == 0) return;
  const TokenAlignment found = std::move(model_.aligner().align({&task, 1}).front());
  add_words(segments,
            time_words(split_words(spelled(task.text), is_written_without_spaces(language)),
                       found.positions, found.probabilities),
            model_.tokens().eot, static_cast<double>(window.seek) / kMelFramesPerSecond,
            window.last_speech_s, settings.punctuation);
}

std::vector<Segment> Transcriber::pieces_of(Segment segment,
                                            const DecodingSettings& settings) const {
  std::vector<Segment> pieces;
  if (settings.max_segment_length) {
    std::vector<Word> parts = words_of(segment);
    if (!settings.split_on_word) parts = split_at_tokens(parts, spelled(segment.tokens));
    pieces =
        cut_segment(segment, std::move(parts), *settings.max_segment_length, model_.tokens().eot);
  } else {
    pieces.push_back(std::move(segment));
  }
  return pieces;
}

AfterWindow Transcriber::time_window(std::vector<Segment>& segments, const WindowPlace& window,
                                     uint32_t place, uint64_t seek, bool to_the_end,
                                     const DecodingSettings& settings) {
  add_word_times(segments, window, place, settings);
  if (settings.hallucination_silence_threshold_s) {
    return skip_hallucinations(segments, window, seek, to_the_end,
                               *settings.hallucination_silence_threshold_s);
  }
  const double end_s = end_of_speech_s(segments);
  if (!to_the_end && end_s > static_cast<double>(window.seek) / kMelFramesPerSecond) {
    seek = static_cast<uint64_t>(std::llrint(end_s * kMelFramesPerSecond));
  }
  return {seek, false};
}

void Transcriber::suppress(const DecodingSettings& settings) {
  model_.decoder().set_suppressed(
      suppressed_tokens(settings, model_.tokenizer(), model_.tokens().eot, model_.suppressed()));
}

uint32_t Transcriber::window_seed(const DecodingSettings& settings, uint64_t seek) {
  return mix_bits(settings.seed ^ mix_bits(static_cast<uint32_t>(seek)));
}

Segment Transcriber::segment_of(const WindowSegment& part, const Decoded& decoded) const {
  Segment segment;
  segment.text = text_of(part.tokens);
  segment.start_s = part.start_s;
  segment.end_s = part.end_s;
  segment.tokens = part.tokens;
  segment.avg_logprob = decoded.result.avg_logprob();
  segment.no_speech_prob = decoded.result.no_speech_prob;
  segment.compression_ratio = decoded.evidence.compression_ratio;
  segment.temperature = decoded.temperature;
  return segment;
}

Transcriber::Recording Transcriber::begin(const MelSpectrogram& mel,
                                          const DecodingSettings& settings) {
  const WhisperTokens& tokens = model_.tokens();
  require_languages(settings);
  suppress(settings);
  Recording recording{mel, settings, {}};
  Transcript& transcript = recording.transcript;
  transcript.duration_s = static_cast<double>(mel.content_frames()) * kFrameSeconds;
  if (settings.language != "auto") {
    transcript.language = known_language(settings.language);
    transcript.language_probability = 1;
  } else if (!tokens.is_multilingual) {
    transcript.language = "en";
    transcript.language_probability = 1;
  }
  if (transcript.language.empty() && settings.language_detection_segments > 1) {
    const LanguageProbability detected = detect_languages(mel, settings).front();
    transcript.language = detected.language;
    transcript.language_probability = detected.probability;
  }
  recording.is_mixed = settings.multilingual && settings.language == "auto";
  recording.language_is_found = !transcript.language.empty();
  recording.window.resize(size_t{model_.n_frames()} * model_.n_mels());
  return recording;
}

Transcriber::Walk Transcriber::walk_of(const Recording& recording, uint64_t begin, uint64_t end,
                                       bool is_first) const {
  return {begin,
          end,
          PromptHistory(recording.settings, model_.tokenizer(), model_.tokens(),
                        model_.decoder().n_text_ctx()),
          recording.transcript.language,
          0,
          is_first};
}

uint32_t Transcriber::n_frames(const Walk& walk) const {
  return static_cast<uint32_t>(std::min<uint64_t>(model_.n_frames(), walk.limit - walk.seek));
}

void Transcriber::go_on_in(const MixedLanguages::Spoken& spoken, bool language_is_found,
                           std::string& language, PromptHistory& history, Transcript& transcript) {
  const std::string code = whisper_languages()[spoken.language].code;
  if (!language_is_found) {
    transcript.language = code;
    transcript.language_probability = spoken.probability;
  } else if (code != language) {
    history.forget();  // a prompt in another language makes the model go on in that one
  }
  language = code;
}

void Transcriber::follow_languages(Recording& recording, Walk& walk) {
  if (!recording.languages || recording.languages->end() != walk.end) {
    const auto detect = [this, &recording](uint64_t begin, uint64_t end) {
      MelFrames part;
      part.first_frame = begin;
      part.n_frames = model_.n_frames();
      part.end_frame = end;
      return languages_in(recording.mel, part, recording.window);
    };
    recording.languages.emplace(recording.mel, walk.seek, walk.end,
                                recording.settings.language_detection_threshold, detect);
  }
  std::optional<size_t> before;
  if (recording.language_is_found) before = number_of_language(walk.language);
  const MixedLanguages::Spoken spoken =
      recording.languages->at(walk.seek, model_.n_frames(), before);
  go_on_in(spoken, recording.language_is_found, walk.language, walk.history, recording.transcript);
  walk.limit = spoken.end;
}

bool Transcriber::encode_window(Recording& recording, Walk& walk, uint32_t place) {
  walk.limit = walk.end;
  if (recording.is_mixed) follow_languages(recording, walk);
  MelFrames cut;
  cut.first_frame = walk.seek;
  cut.n_frames = model_.n_frames();
  cut.end_frame = walk.limit;
  recording.mel.window(cut, recording.window.data());
  if (recording.settings.policy.skip_uniform_silence &&
      is_uniform({recording.window.data(), size_t{n_frames(walk)} * model_.n_mels()})) {
    walk.seek += n_frames(walk);
    return false;
  }
  const float* const windows[] = {recording.window.data()};
  model_.encode(windows, place);
  return true;
}

DecodeTask Transcriber::task_of_window(Recording& recording, Walk& walk,
                                       std::optional<uint32_t> place) {
  Transcript& transcript = recording.transcript;
  if (!recording.language_is_found && !recording.is_mixed) {
    const Language detected = detect_language(place);
    transcript.language = walk.language = detected.code;
    transcript.language_probability = detected.probability;
  }
  return task_for(walk.history, walk.language, walk.is_first, recording.settings);
}

void Transcriber::skip_window(Recording& recording, Walk& walk, const Decoded& decoded) const {
  if (!is_silent_by_reference(decoded.evidence, recording.settings)) {
    const double start_s = static_cast<double>(walk.seek) * kFrameSeconds;
    recording.transcript.dropped.push_back({start_s, start_s + n_frames(walk) * kFrameSeconds,
                                            kNoSpeech, trimmed(text_of(decoded.result.tokens))});
  }
  walk.is_first = false;
  walk.seek += n_frames(walk);
}

std::vector<Segment> Transcriber::finish_window(Recording& recording, Walk& walk,
                                                const Decoded& decoded, uint32_t place) {
  const DecodingSettings& settings = recording.settings;
  std::vector<Segment> segments;
  if (decoded.is_silent) {
    skip_window(recording, walk, decoded);
    return segments;
  }
  walk.is_first = false;
  recording.language_is_found = true;
  if (decoded.is_alone) walk.history.forget();
  WindowSegments cut =
      cut_window(decoded.result.tokens, model_.tokens().timestamp_begin, walk.seek, n_frames(walk));
  if (decoded.evidence.loops && !decoded.is_chant && settings.policy.drop_loops) {
    drop_loop(cut, walk.seek, recording.transcript);
  }
  for (const WindowSegment& part : cut.segments) {
    Segment& segment = segments.emplace_back(segment_of(part, decoded));
    segment.seek = static_cast<int64_t>(walk.seek);
    segment.language = walk.language;
    if (recording.is_mixed) {
      // What comes behind is another's, though the model may not know where the sound ends.
      const double limit_s = static_cast<double>(walk.limit) * kFrameSeconds;
      segment.start_s = std::min(segment.start_s, limit_s);
      segment.end_s = std::min(segment.end_s, limit_s);
    }
  }
  uint64_t next_seek = walk.seek + cut.advance_frames;
  if (settings.word_timestamps && !segments.empty()) {
    const WindowPlace window{walk.seek, n_frames(walk), model_.n_frames(),
                             recording.mel.content_frames(), walk.last_speech_s};
    const AfterWindow after =
        time_window(segments, window, place, next_seek, cut.to_the_end, settings);
    next_seek = std::max(after.seek, walk.seek + 1);
    if (after.again) {
      walk.seek = next_seek;
      return {};
    }
    if (!segments.empty()) walk.last_speech_s = end_of_speech_s(segments);
  }
  // Nothing said, or said in no time: neither shown nor part of the next prompt.
  std::erase_if(segments, [](const Segment& segment) {
    return segment.start_s == segment.end_s || trimmed(segment.text).empty();
  });
  for (const Segment& segment : segments) walk.history.add(segment.tokens);
  if (!settings.condition_on_previous_text || decoded.temperature > kTrustworthyTemperature) {
    walk.history.forget();
  }
  // A window that says nothing, and that the next begins where it does, would go on for ever.
  constexpr uint64_t kLeastAdvance = 100;
  if (segments.empty() && settings.policy.advance_past_silence) {
    next_seek = std::max(next_seek, walk.seek + kLeastAdvance);
  }
  walk.seek = next_seek;
  return segments;
}

void Transcriber::hand_on(Recording& recording, Segment segment,
                          const std::function<void(const Segment&)>& on_segment) const {
  std::vector<Segment>& all = recording.transcript.segments;
  for (Segment& piece : pieces_of(std::move(segment), recording.settings)) {
    piece.id = static_cast<int>(all.size());
    if (on_segment) on_segment(piece);
    all.push_back(std::move(piece));
  }
}

Transcript Transcriber::transcribe(const MelSpectrogram& mel, const DecodingSettings& settings,
                                   const std::function<void(const Segment&)>& on_segment,
                                   const std::function<void(double, double)>& on_progress) {
  Recording recording = begin(mel, settings);
  Transcript& transcript = recording.transcript;
  const double total_s = transcript.duration_s;
  Walk walk = walk_of(recording, 0, 0, true);
  for (const Clip& clip : clips_of(settings.clip_timestamps, mel.content_frames())) {
    walk.seek = clip.begin;
    walk.end = clip.end;
    while (walk.seek < walk.end) {
      if (on_progress) on_progress(static_cast<double>(walk.seek) * kFrameSeconds, total_s);
      if (!encode_window(recording, walk, 0)) continue;
      const DecodeTask task = task_of_window(recording, walk);
      const Decoded decoded = decode_window(recording, walk, task);
      for (Segment& segment : finish_window(recording, walk, decoded, 0)) {
        hand_on(recording, std::move(segment), on_segment);
      }
    }
  }
  if (!recording.language_is_found && settings.policy.require_speech_for_language) {
    transcript.language.clear();
    transcript.language_probability = 0;
  }
  if (on_progress) on_progress(total_s, total_s);
  return std::move(transcript);
}

}  // namespace vesper
