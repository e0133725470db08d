#include "decoder/windows/window_decoder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "decoder/suppressed_tokens.h"
#include "decoder/transcript/text_lines.h"
#include "decoder/windows/attempts/repetition.h"
#include "error/error.h"

namespace vesper {
namespace {

// Whether all values are equal: silence compared with the loudest part of the recording.
bool is_uniform(std::span<const float> values) {
  return std::ranges::all_of(values, [&](float x) { return x == values.front(); });
}

std::span<const float> audio_of(const AudioWindow& window, uint32_t n_mels) {
  return std::span(window.log_mel).first(size_t{window.n_frames} * n_mels);
}

size_t index_of_language(const std::string& code) {
  const auto languages = whisper_languages();
  const auto is_it = [&](const auto& language) { return language.code == code; };
  return static_cast<size_t>(std::ranges::find_if(languages, is_it) - languages.begin());
}

}  // namespace

Search search_of(const DecodingSettings& settings, double temperature) {
  Search search;
  search.sampling.temperature = static_cast<float>(temperature);
  search.sampling.repetition_penalty = static_cast<float>(settings.repetition_penalty);
  search.sampling.no_repeat_ngram_size = settings.no_repeat_ngram_size;
  search.length_penalty = settings.length_penalty;
  if (temperature > 0) {
    search.sampling.top_k = settings.top_k;
    search.sampling.top_p = static_cast<float>(settings.top_p);
    search.sampling.min_p = static_cast<float>(settings.min_p);
    search.n_candidates = settings.best_of;
  } else if (settings.beam_size > 1 && !settings.grammar) {
    search.n_candidates = settings.beam_size;
    search.max_finished = most_finished(settings);
  }
  return search;
}

uint32_t window_seed(uint32_t seed, uint64_t seek) {
  return mix_bits(seed ^ mix_bits(static_cast<uint32_t>(seek)));
}

uint32_t attempt_seed(uint32_t window_seed, size_t attempt) {
  return mix_bits(window_seed + static_cast<uint32_t>(attempt));
}

WindowDecoder::WindowDecoder(WhisperModel& model, const DecodingSettings& settings)
    : model_(model), settings_(settings) {
  if (settings.multilingual && !model.tokens().is_multilingual) {
    throw Error(ErrorKind::kUsage, "multilingual", "the model knows English only");
  }
  if (settings.language != "auto") known_language(settings.language);
  std::span<const int32_t> of_model = model.suppressed();
  if (settings.grammar) {
    grammar_.emplace(model.grammar(*settings.grammar));
    if (!settings.without_timestamps) {
      grammar_->set_timestamp_begin(model.tokens().timestamp_begin);
    }
    of_model = {};
  }
  model.decoder().set_suppressed(
      suppressed_tokens(settings, model.tokenizer(), model.tokens().eot, of_model));
}

RecordingState WindowDecoder::begin(uint64_t n_content_frames) const {
  RecordingState state;
  state.n_content_frames = n_content_frames;
  Transcript& transcript = state.transcript;
  transcript.duration_s = static_cast<double>(n_content_frames) * kFrameSeconds;
  if (settings_.language != "auto") {
    transcript.language = known_language(settings_.language);
  } else if (!model_.tokens().is_multilingual) {
    transcript.language = "en";
  }
  state.language_is_found = !transcript.language.empty();
  transcript.language_probability = state.language_is_found ? 1 : 0;
  return state;
}

WindowCursor WindowDecoder::cursor(const RecordingState& state, uint64_t begin,
                                   uint64_t end) const {
  return {.seek = begin,
          .end = end,
          .limit = end,
          .history = PromptHistory(settings_, model_.tokenizer(), model_.tokens(),
                                   model_.decoder().n_text_ctx()),
          .language = state.transcript.language};
}

// ---- Before a window

AudioWindow WindowDecoder::audio_window() const {
  return {.log_mel = std::vector<float>(size_t{model_.n_frames()} * model_.n_mels())};
}

bool WindowDecoder::is_uniform_silence(const AudioWindow& window) const {
  return settings_.policy.skip_uniform_silence && is_uniform(audio_of(window, model_.n_mels()));
}

void WindowDecoder::amplify(AudioWindow& window, float maximum) const {
  const WindowPolicy& policy = settings_.policy;
  if (!policy.amplify_faint_recordings || maximum >= policy.faint_level) return;
  constexpr double kScale = 4;  // of log10 energy in a window, MelSpectrogram::window
  const auto gain = static_cast<float>((policy.usual_level - maximum) / kScale);
  const size_t n = audio_of(window, model_.n_mels()).size();
  for (float& value : std::span(window.log_mel).first(n)) value += gain;
}

bool WindowDecoder::follows_languages() const {
  return settings_.multilingual && settings_.language == "auto";
}

double WindowDecoder::detect_language(RecordingState& state, WindowCursor& cursor,
                                      std::optional<uint32_t> slot, uint32_t window) const {
  Transcript& transcript = state.transcript;
  if (!state.language_is_found && !follows_languages()) {
    WhisperDecoder& decoder = model_.decoder();
    const std::vector<float> probabilities =
        slot ? decoder.language_probabilities(*slot, window) : decoder.language_probabilities();
    const auto best = std::ranges::max_element(probabilities);
    transcript.language =
        whisper_languages()[static_cast<size_t>(best - probabilities.begin())].code;
    transcript.language_probability = *best;
    cursor.language = transcript.language;
  }
  return transcript.language_probability;
}

std::vector<float> WindowDecoder::language_probabilities(const MelSpectrogram& mel,
                                                         const MelFrames& frames,
                                                         AudioWindow& window) const {
  mel.window(frames, window.log_mel.data());
  window.n_frames = static_cast<uint32_t>(
      std::min<size_t>(frames.end_frame - frames.first_frame, model_.n_frames()));
  if (is_uniform(audio_of(window, model_.n_mels()))) return {};
  amplify(window, std::max(mel.maximum(), frames.least_maximum));
  model_.encode(window.log_mel.data());
  return model_.decoder().language_probabilities();
}

void WindowDecoder::follow_language(RecordingState& state, WindowCursor& cursor,
                                    MixedLanguages& languages, uint64_t seek) const {
  std::optional<size_t> before;
  if (state.language_is_found) before = index_of_language(cursor.language);
  const MixedLanguages::Spoken spoken = languages.at(seek, model_.n_frames(), before);
  const std::string code = whisper_languages()[spoken.language].code;
  if (!state.language_is_found) {
    state.transcript.language = code;
    state.transcript.language_probability = spoken.probability;
  } else if (code != cursor.language) {
    cursor.history.forget();  // a prompt in another language makes the model continue in that
                              // language
  }
  cursor.language = code;
  cursor.limit = cursor.seek + (spoken.end - seek);
}

// ---- One window

DecodeTask WindowDecoder::task(const WindowCursor& cursor) const {
  const uint32_t n_text_ctx = model_.decoder().n_text_ctx(), most = n_text_ctx / 2;
  DecodeTask task;
  task.timestamps = !settings_.without_timestamps;
  if (grammar_) task.grammar = &*grammar_;
  task.max_initial_timestamp =
      static_cast<uint32_t>(std::lround(settings_.max_initial_timestamp_s / kTimestampSeconds));
  task.prompt = cursor.history.before_next();
  task.start_of_transcript = static_cast<uint32_t>(task.prompt.size());
  const std::vector<int32_t> start = start_sequence(cursor.language);
  task.prompt.insert(task.prompt.end(), start.begin(), start.end());
  task.max_tokens = std::min(settings_.max_new_tokens.value_or(most), most);
  if (cursor.is_first) {
    std::vector<int32_t> given = tokens_of_phrase(model_.tokenizer(), settings_.prefix);
    if (!given.empty() && task.timestamps) {
      given.insert(given.begin(), model_.tokens().timestamp_begin);
    }
    // The model adds at least one token.
    if (given.size() >= most) given.resize(most - 1);
    task.n_given = static_cast<uint32_t>(given.size());
    task.max_tokens = std::min(task.max_tokens + task.n_given, most);
    task.prompt.insert(task.prompt.end(), given.begin(), given.end());
  }
  const auto n_prompt = static_cast<uint32_t>(task.prompt.size()) - task.n_given;
  task.max_tokens = std::min(task.max_tokens, n_text_ctx - n_prompt + 1);
  return task;
}

std::optional<bool> WindowDecoder::has_speech(const RecordingState& state,
                                              const WindowCursor& cursor) const {
  if (!state.speech) return std::nullopt;
  const uint64_t end = cursor.seek + cursor.n_frames(model_.n_frames());
  return std::ranges::any_of(*state.speech, [&](const SpeechSegment& segment) {
    return segment.begin < end && segment.end > cursor.seek;
  });
}

WindowResult WindowDecoder::decode(const RecordingState& state, const WindowCursor& cursor) const {
  DecodeTask task = this->task(cursor);
  const uint32_t seed = window_seed(settings_.seed, cursor.seek);
  const std::optional<bool> has_speech = this->has_speech(state, cursor);
  WindowAttempts attempts(settings_);
  for (size_t i = 0; i < settings_.temperatures.size(); ++i) {
    task.seed = attempt_seed(seed, i);
    if (attempts.take(attempt(task, settings_.temperatures[i], has_speech))) break;
  }
  return std::move(attempts).result();
}

WindowResult WindowDecoder::attempt(const DecodeTask& task, double temperature,
                                    std::optional<bool> has_speech) const {
  return judge(
      std::move(model_.decoder().decode({&task, 1}, search_of(settings_, temperature)).front()),
      temperature, has_speech);
}

WindowResult WindowDecoder::judge(DecodeResult decoded, double temperature,
                                  std::optional<bool> has_speech) const {
  WindowResult result;
  result.temperature = temperature;
  result.evidence = {.no_speech_prob = decoded.no_speech_prob,
                     .avg_logprob = decoded.avg_logprob(),
                     .compression_ratio = compression_ratio(trimmed(text_of(decoded.tokens))),
                     .is_one_loop = is_one_loop(text_tokens(decoded.tokens), settings_.policy),
                     .has_speech = has_speech};
  result.decoded = std::move(decoded);
  result.is_silent = is_silent(result.evidence, settings_);
  return result;
}

// ---- Tokens

std::string WindowDecoder::known_language(const std::string& name) const {
  const WhisperTokens& tokens = model_.tokens();
  const std::optional<int32_t> token = tokens.language_token(name);
  if (!token) throw Error(ErrorKind::kUsage, "language", "the model knows no '" + name + "'");
  const std::string code = tokens.language_of(*token)->code;
  if (!tokens.is_multilingual && code != "en") {
    throw Error(ErrorKind::kUsage, "language", "the model knows English only, not '" + name + "'");
  }
  return code;
}

std::vector<int32_t> WindowDecoder::start_sequence(const std::string& language) const {
  const WhisperTokens& tokens = model_.tokens();
  std::vector<int32_t> sequence{tokens.sot};
  if (tokens.is_multilingual) {
    sequence.push_back(tokens.language_token(language).value());
    sequence.push_back(settings_.translate ? tokens.translate : tokens.transcribe);
  }
  if (settings_.without_timestamps) sequence.push_back(tokens.notimestamps);
  return sequence;
}

AlignmentTask WindowDecoder::alignment_task(const std::string& language,
                                            std::span<const int32_t> ids, uint32_t n_frames) const {
  constexpr uint32_t kFramesPerPosition = 2;
  AlignmentTask task;
  task.start = start_sequence(language);
  if (task.start.back() == model_.tokens().notimestamps) task.start.pop_back();
  task.n_positions = n_frames / kFramesPerPosition;
  task.text = text_tokens(ids);
  return task;
}

std::vector<int32_t> WindowDecoder::text_tokens(std::span<const int32_t> ids) const {
  std::vector<int32_t> text;
  std::ranges::copy_if(ids, std::back_inserter(text),
                       [&](int32_t id) { return id < model_.tokens().eot; });
  return text;
}

std::string WindowDecoder::text_of(std::span<const int32_t> ids) const {
  std::string text;
  for (const std::string_view bytes : token_bytes(ids)) text += bytes;
  return text;
}

}  // namespace vesper
