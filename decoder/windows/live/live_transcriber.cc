#include "decoder/windows/live/live_transcriber.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "audio/mel/mel.h"
#include "decoder/windows/attempts/speech_evidence.h"
#include "decoder/windows/languages/mixed_languages.h"
#include "decoder/windows/loudness.h"
#include "decoder/windows/window_segments.h"
#include "decoder/words/word_times.h"
#include "error/error.h"

namespace vesper {
namespace {

// Frames before and after the window, so that its log-mel equals that of the whole recording.
constexpr uint64_t kFramesAround = 10;
// Guesses at fewer frames rarely stay.
constexpr uint32_t kFewestFrames = 100;
// From here on the language is accepted even if uncertain.
constexpr uint32_t kFramesForLanguage = 1000;
// This much of another language ends an unfinished window.
constexpr uint32_t kFramesOfAnother = 200;
// A word that ended this long ago is final even if guesses differ.
constexpr double kPatienceSeconds = 5;
// The minimum log-mel.
constexpr float kSilence = -10;

}  // namespace

LiveTranscriber::LiveTranscriber(WhisperModel& model, const DecodingSettings& settings,
                                 LiveEvents events, FindSpeech find_speech)
    : model_(model),
      settings_(settings),
      decoder_(model, settings_),
      events_(std::move(events)),
      find_speech_(std::move(find_speech)),
      state_(decoder_.begin(0)),
      cursor_(decoder_.cursor(state_, 0, 0)),
      window_(decoder_.audio_window()),
      maximum_(kSilence) {}

double LiveTranscriber::received_s() const {
  return static_cast<double>(n_received_) / (kMelHop / kFrameSeconds);
}

uint64_t LiveTranscriber::frames_received() const { return n_received_ / kMelHop; }

void LiveTranscriber::push(const float* samples, size_t n) {
  const uint64_t needed = (cursor_.seek - std::min(cursor_.seek, kFramesAround)) * kMelHop;
  if (needed > first_sample_) {
    const uint64_t n_past = std::min<uint64_t>(needed - first_sample_, samples_.size());
    samples_.erase(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(n_past));
    first_sample_ += n_past;
  }
  samples_.insert(samples_.end(), samples, samples + n);
  n_received_ += n;
}

MelSpectrogram LiveTranscriber::log_mel(uint32_t n_frames, uint64_t& n_before) {
  n_before = std::min(cursor_.seek, kFramesAround);
  const uint64_t begin = (cursor_.seek - n_before) * kMelHop - first_sample_;
  const uint64_t end = std::min<uint64_t>(
      samples_.size(), (cursor_.seek + n_frames + kFramesAround) * kMelHop - first_sample_);
  MelSpectrogram mel(static_cast<int>(model_.n_mels()), model_.mel_filters());
  mel.push(samples_.data() + begin, end - begin);
  mel.finish();
  maximum_ = std::max(maximum_, mel.maximum());
  return mel;
}

bool LiveTranscriber::encode(uint32_t n_frames) {
  uint64_t n_before = 0;
  const MelSpectrogram mel = log_mel(n_frames, n_before);
  const uint64_t n_there = std::min<uint64_t>(mel.content_frames(), n_before + n_frames);
  end_of_sound_ = static_cast<uint32_t>(end_of_sound(loudness_of(mel, n_before, n_there)));
  MelFrames cut;
  cut.first_frame = n_before;
  cut.n_frames = model_.n_frames();
  cut.end_frame = cut.first_frame + n_frames;
  cut.least_maximum = maximum_;
  mel.window(cut, window_.log_mel.data());
  window_.n_frames = n_frames;
  if (decoder_.is_uniform_silence(window_)) return false;
  if (find_speech_) {
    const uint64_t begin = cursor_.seek * kMelHop - first_sample_;
    const size_t n = std::min<size_t>(samples_.size() - begin, size_t{n_frames} * kMelHop);
    state_.speech = find_speech_(std::span(samples_).subspan(begin, n));
    for (SpeechSegment& segment : *state_.speech) {
      segment.begin += cursor_.seek;
      segment.end += cursor_.seek;
    }
  }
  decoder_.amplify(window_, maximum_);
  decoder_.model().encode(window_.log_mel.data());
  return true;
}

bool LiveTranscriber::detect_language(uint32_t n_frames, bool is_whole) {
  if (state_.language_is_found || decoder_.follows_languages()) return true;
  if (!is_whole && !final_.empty()) return true;
  const double probability = decoder_.detect_language(state_, cursor_);
  return is_whole || probability >= settings_.language_detection_threshold ||
         n_frames >= kFramesForLanguage;
}

uint32_t LiveTranscriber::follow_language(uint32_t n_frames) {
  uint64_t n_before = 0;
  const MelSpectrogram mel = log_mel(n_frames, n_before);
  const uint64_t end = std::min<uint64_t>(mel.content_frames(), n_before + n_frames);
  const auto detect = [&](uint64_t from, uint64_t to) {
    const auto key = std::pair(cursor_.seek + from - n_before, cursor_.seek + to - n_before);
    if (const auto known = frame_languages_.find(key); known != frame_languages_.end()) {
      return known->second;
    }
    MelFrames frames;
    frames.first_frame = from;
    frames.n_frames = model_.n_frames();
    frames.end_frame = to;
    frames.least_maximum = maximum_;
    return frame_languages_[key] = decoder_.language_probabilities(mel, frames, window_);
  };
  std::erase_if(frame_languages_,
                [&](const auto& frames) { return frames.first.second <= cursor_.seek; });
  MixedLanguages languages(mel, n_before, end, settings_.language_detection_threshold, detect);
  decoder_.follow_language(state_, cursor_, languages, n_before);
  const uint64_t n_spoken = cursor_.limit - cursor_.seek;
  return n_before + n_spoken >= end ? n_frames : static_cast<uint32_t>(n_spoken);
}

DecodeTask LiveTranscriber::guess_task() const {
  if (final_.empty()) return decoder_.task(cursor_);
  WindowCursor cursor = cursor_;
  cursor.is_first = false;  // the final tokens begin with the prefix, if any
  DecodeTask task = decoder_.task(cursor);
  task.prompt.insert(task.prompt.end(), final_.begin(), final_.end());
  task.n_given = static_cast<uint32_t>(final_.size());
  const uint32_t n_text_ctx = model_.decoder().n_text_ctx();
  const auto n_prompt = static_cast<uint32_t>(task.prompt.size()) - task.n_given;
  task.max_tokens =
      std::min({task.max_tokens + task.n_given, n_text_ctx / 2, n_text_ctx - n_prompt + 1});
  return task;
}

std::vector<CaptionWord> LiveTranscriber::words_of(std::span<const int32_t> guess, double end_s,
                                                   size_t n_given, uint64_t seek) const {
  CaptionTokens tokens;
  tokens.end_of_text = model_.tokens().eot;
  tokens.timestamp_begin = model_.tokens().timestamp_begin;
  tokens.by_character = is_written_without_spaces(cursor_.language);
  tokens.bytes_of = [&](int32_t id) { return model_.tokenizer().bytes_of(id); };
  tokens.n_given = n_given;
  return caption_words(guess, tokens, static_cast<double>(seek) * kFrameSeconds, end_s);
}

void LiveTranscriber::emit_partial(std::span<const CaptionWord> words) {
  if (words.empty() && !has_partial_) return;
  has_partial_ = !words.empty();
  if (events_.on_partial) events_.on_partial(words, received_s());
}

bool LiveTranscriber::transcribe_whole_windows() {
  const uint64_t before = cursor_.seek;
  while (frames_received() >= cursor_.seek + model_.n_frames() + kFramesAround) {
    transcribe_window(model_.n_frames());
  }
  return cursor_.seek > before;
}

WindowResult LiveTranscriber::guess(uint32_t n_frames) {
  DecodeTask guess = guess_task();
  // An upper limit of the speech rate, so that a looping guess ends soon.
  constexpr double kTokensPerSecond = 15, kMoreTokens = 24;
  const double end_s = static_cast<double>(cursor_.seek + n_frames) * kFrameSeconds;
  const double since_s =
      end_s - std::max(final_end_s_, static_cast<double>(cursor_.seek) * kFrameSeconds);
  guess.max_tokens =
      std::min(guess.max_tokens,
               guess.n_given +
                   static_cast<uint32_t>(kMoreTokens + kTokensPerSecond * std::max(0.0, since_s)));
  std::optional<bool> has_speech;
  if (state_.speech) has_speech = !state_.speech->empty();
  // A guess is replaced soon: one attempt is enough.
  guess.seed = attempt_seed(settings_.seed, 0);
  const double temperature = settings_.temperatures.front();
  WindowResult result = decoder_.attempt(guess, temperature, has_speech);
  // A model tends to end after a sentence and to ignore the beginning of the next one.
  const WindowPolicy& policy = settings_.policy;
  const std::vector<int32_t>& tokens = result.decoded.tokens;
  const int32_t begin = model_.tokens().timestamp_begin;
  if (!policy.extend_guesses || result.is_silent || tokens.empty() || tokens.back() < begin ||
      static_cast<uint32_t>(tokens.back() - begin) * kFramesPerTimestamp +
              policy.guess_gap_frames >=
          end_of_sound_) {
    return result;
  }
  guess.speech_end = (end_of_sound_ - policy.speech_end_slack_frames) / kFramesPerTimestamp;
  WindowResult longer = decoder_.attempt(guess, temperature, has_speech);
  WindowEvidence evidence = longer.evidence;  // of the new tokens only
  const size_t n_new = longer.decoded.tokens.size() - guess.n_given;
  evidence.avg_logprob = longer.decoded.sum_logprob / static_cast<double>(n_new + 1);
  if (longer.is_silent || has_failed(evidence, settings_)) return result;
  return longer;
}

void LiveTranscriber::transcribe_beginning() {
  const uint64_t received = frames_received();
  if (received < cursor_.seek + kFewestFrames || received == decoded_frames_) return;
  decoded_frames_ = received;
  const auto n_frames =
      static_cast<uint32_t>(std::min<uint64_t>(received - cursor_.seek, model_.n_frames()));
  // A window without room for more words counts as full.
  if (final_.size() + 16 > model_.decoder().n_text_ctx() / 2) return transcribe_window(n_frames);
  if (decoder_.follows_languages()) {
    const uint32_t limit = follow_language(n_frames);
    // A short segment may still get the previous language.
    if (limit + kFramesOfAnother <= n_frames) return transcribe_window(n_frames);
  }
  if (!encode(n_frames)) return emit_partial({});
  if (!detect_language(n_frames, false)) return;
  const WindowResult guessed = guess(n_frames);
  const DecodeResult& result = guessed.decoded;
  const bool is_repetitive =
      settings_.compression_ratio_threshold &&
      guessed.evidence.compression_ratio > *settings_.compression_ratio_threshold;
  if ((guessed.is_silent && final_.empty()) || is_repetitive) {
    agreement_.forget();
    return emit_partial({});
  }
  const double end_s = static_cast<double>(cursor_.seek + n_frames) * kFrameSeconds;
  std::vector<CaptionWord> words = words_of(result.tokens, end_s, final_.size(), cursor_.seek);
  time_words(words, result.tokens, n_frames);
  const auto first = std::ranges::find_if(
      words, [&](const CaptionWord& word) { return word.end_token > final_.size(); });
  std::vector<CaptionWord> open(first, words.end());
  // In a pause a model invents the likely continuation.
  constexpr double kInexactSeconds = 0.2;
  const double sound_end_s =
      end_of_sound_ > 0 ? static_cast<double>(cursor_.seek + end_of_sound_) * kFrameSeconds : end_s;
  const auto n_said = std::ranges::find_if(open,
                                           [&](const CaptionWord& word) {
                                             return word.start_s > sound_end_s + kInexactSeconds;
                                           }) -
                      open.begin();
  const std::vector<CaptionWord> agreed =
      agreement_.agree(std::span(open).first(static_cast<size_t>(n_said)), end_s, kPatienceSeconds);
  if (!agreed.empty()) {
    const CaptionWord& last = agreed.back();
    final_.assign(result.tokens.begin(),
                  result.tokens.begin() + static_cast<std::ptrdiff_t>(last.end_token));
    final_end_s_ = last.end_s;
    if (events_.on_final) events_.on_final(agreed, received_s());
    open.erase(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(agreed.size() - 1));
    open.front().text.erase(0, last.text.size());  // the marks after the last word
    open.front().opens_segment = false;
    if (open.front().text.empty()) open.erase(open.begin());
  }
  emit_partial(open);
}

void LiveTranscriber::time_words(std::span<CaptionWord> words, std::span<const int32_t> guess,
                                 uint32_t n_frames) {
  if (words.empty() || words.back().end_token <= final_.size()) return;
  // A word that seems longer includes a pause.
  constexpr double kMostSecondsPerByte = 0.08, kMostSecondsMore = 0.1;
  const AlignmentTask task = decoder_.alignment_task(cursor_.language, guess, n_frames);
  std::vector<size_t> text_begins(guess.size() + 1);  // text tokens before each
  for (size_t i = 0; i < guess.size(); ++i) {
    text_begins[i + 1] = text_begins[i] + (guess[i] < model_.tokens().eot ? 1 : 0);
  }
  const TokenAlignment alignment = model_.aligner().align({&task, 1}).front();
  const double window_s = static_cast<double>(cursor_.seek) * kFrameSeconds;
  const auto at_s = [&](size_t token) {
    return window_s + alignment.positions[text_begins[token]] * kSecondsPerPosition;
  };
  size_t begin = 0;  // start of the word in the guess
  for (CaptionWord& word : words) {
    const size_t end = word.stem_end_token > begin ? word.stem_end_token : word.end_token;
    const double most_s =
        kMostSecondsPerByte * static_cast<double>(word.text.size()) + kMostSecondsMore;
    word.start_s = at_s(begin);
    word.end_s = std::min(at_s(end), word.start_s + most_s);
    for (size_t i = text_begins[begin];
         i < text_begins[end] && settings_.policy.delay_doubtful_words; ++i) {
      word.probability = std::min(word.probability, double{alignment.probabilities[i]});
    }
    begin = word.end_token;
  }
}

void LiveTranscriber::transcribe_window(uint32_t n_frames) {
  if (decoder_.follows_languages()) n_frames = follow_language(n_frames);
  agreement_.forget();
  const uint64_t seek = cursor_.seek;
  const double end_s = static_cast<double>(seek + n_frames) * kFrameSeconds;
  cursor_.limit = seek + n_frames;
  std::vector<Segment> segments;
  if (encode(n_frames)) {
    detect_language(n_frames, true);
    const WindowResult result = decoder_.decode(state_, cursor_);
    segments = decoder_.advance(state_, cursor_, result, 0);
  } else {
    decoder_.skip(cursor_);
  }
  emit_window(segments, seek, end_s);
  emit_partial({});
}

void LiveTranscriber::emit_segment(Segment segment) {
  decoder_.emit_segment(state_.transcript, std::move(segment), events_.on_segment);
}

void LiveTranscriber::emit_final_words(uint64_t seek, double end_s) {
  if (final_.empty()) return;
  Segment segment;
  segment.seek = static_cast<int64_t>(seek);
  segment.text = decoder_.text_of(final_);
  segment.start_s = static_cast<double>(seek) * kFrameSeconds;
  segment.end_s = std::max(segment.start_s, end_s);
  segment.tokens = std::exchange(final_, {});
  segment.language = cursor_.language;
  emit_segment(std::move(segment));
}

void LiveTranscriber::emit_window(const std::vector<Segment>& segments, uint64_t seek,
                                  double end_s) {
  std::vector<int32_t> ids;          // of all segments
  std::vector<size_t> segment_ends;  // in ids
  for (const Segment& segment : segments) {
    ids.insert(ids.end(), segment.tokens.begin(), segment.tokens.end());
    segment_ends.push_back(ids.size());
  }
  const std::vector<CaptionWord> whole = words_of(ids, end_s, 0, seek);
  if (whole.empty()) return emit_final_words(seek, end_s);
  const std::vector<CaptionWord> shown = words_of(final_, final_end_s_, 0, seek);
  ShownPart part = find_shown(shown, whole);
  // Words after the last segment begin the next window if they are in it.
  const double next_s = static_cast<double>(cursor_.seek) * kFrameSeconds;
  if (next_s >= end_s) part.stands_for.resize(shown.size(), whole.size() - 1);

  const auto is_text = [&](int32_t id) { return id < model_.tokens().eot; };
  size_t next_shown = 0, next = 0;
  for (size_t p = 0; p < segments.size(); ++p) {
    std::vector<int32_t> said;
    std::vector<CaptionWord> added;
    const auto append = [&](const std::vector<int32_t>& from, size_t begin, size_t end) {
      std::copy_if(from.begin() + static_cast<std::ptrdiff_t>(begin),
                   from.begin() + static_cast<std::ptrdiff_t>(end), std::back_inserter(said),
                   is_text);
    };
    for (; next < whole.size() && whole[next].end_token <= segment_ends[p]; ++next) {
      for (; next_shown < part.stands_for.size() && part.stands_for[next_shown] == next;
           ++next_shown) {
        append(final_, next_shown == 0 ? 0 : shown[next_shown - 1].end_token,
               shown[next_shown].end_token);
      }
      const CaptionWord& word = whole[next];
      if (next >= part.n_whole) {
        append(ids, next == 0 ? 0 : whole[next - 1].end_token, word.end_token);
        added.push_back(word);
      } else if (next + 1 == part.n_whole && next_shown == shown.size() && word.stem_bytes > 0 &&
                 word.stem_bytes < word.text.size()) {
        // The marks after the last word, which were not final.
        append(ids, word.stem_end_token, word.end_token);
        CaptionWord& marks = added.emplace_back(word);
        marks.text.erase(0, word.stem_bytes);
        marks.opens_segment = false;
      }
    }
    if (said.empty()) continue;
    if (!added.empty() && events_.on_final) events_.on_final(added, received_s());
    Segment spoken = segments[p];
    const auto first = std::ranges::find_if(spoken.tokens, is_text);
    const auto last = std::find_if(spoken.tokens.rbegin(), spoken.tokens.rend(), is_text).base();
    std::vector<int32_t> tokens(spoken.tokens.begin(), first);
    tokens.insert(tokens.end(), said.begin(), said.end());
    tokens.insert(tokens.end(), last, spoken.tokens.end());
    spoken.tokens = std::move(tokens);
    spoken.text = decoder_.text_of(spoken.tokens);
    emit_segment(std::move(spoken));
  }
  const size_t n_emitted = next_shown == 0 ? 0 : shown[next_shown - 1].end_token;
  final_ = tokens_of_next_window(std::span(final_).subspan(n_emitted), cursor_.seek - seek,
                                 model_.tokens().timestamp_begin);
}

Transcript LiveTranscriber::finish() {
  transcribe_whole_windows();
  while (cursor_.seek < frames_received()) {
    transcribe_window(static_cast<uint32_t>(
        std::min<uint64_t>(model_.n_frames(), frames_received() - cursor_.seek)));
  }
  // Final words are emitted even if the model's times are after the end of the audio.
  emit_final_words(cursor_.seek, received_s());
  emit_partial({});
  state_.transcript.duration_s = received_s();
  return decoder_.finish(std::move(state_));
}

}  // namespace vesper
