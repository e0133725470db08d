#include "decoder/windows/live_transcriber.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "audio/mel.h"
#include "decoder/windows/loudness.h"
#include "decoder/windows/mixed_languages.h"
#include "decoder/windows/speech_evidence.h"
#include "decoder/windows/window_segments.h"
#include "decoder/words/word_times.h"
#include "error/error.h"

namespace vesper {
namespace {

constexpr uint64_t kHop = kMelHop;
// Sound before the window, so that its first rows are those of the whole recording.
constexpr uint64_t kFramesBefore = 10;
// Less says nothing that lasts.
constexpr uint32_t kFewestFrames = 100;
// From here on the language is taken as it is, clear or not.
constexpr uint32_t kFramesForLanguage = 1000;
// So much in another language ends a window that is not full.
constexpr uint32_t kFramesOfAnother = 200;
// A word that ended so long ago is final though guesses differ in it.
constexpr double kPatienceSeconds = 5;
// The log-mel of silence, the least there is.
constexpr float kSilence = -10;

}  // namespace

LiveTranscriber::LiveTranscriber(WhisperModel& model, Transcriber& transcriber,
                                 const DecodingSettings& settings, LiveEvents events)
    : model_(model),
      transcriber_(transcriber),
      settings_(settings),
      events_(std::move(events)),
      history_(settings_, model.tokenizer(), model.tokens(), model.decoder().n_text_ctx()),
      maximum_(kSilence),
      window_(size_t{model.n_frames()} * model.n_mels()) {
  transcriber_.require_languages(settings_);
  transcriber_.suppress(settings_);
  language_is_given_ = settings.language != "auto" || !model.tokens().is_multilingual;
  is_mixed_ = settings.multilingual && !language_is_given_;
  if (!language_is_given_) return;
  language_ = settings.language == "auto" ? "en" : transcriber_.known_language(settings.language);
  transcript_.language = language_;
  transcript_.language_probability = 1;
}

double LiveTranscriber::received_s() const {
  return static_cast<double>(n_received_) / (kHop / kFrameSeconds);
}

uint64_t LiveTranscriber::frames_received() const { return n_received_ / kHop; }

void LiveTranscriber::push(const float* samples, size_t n) {
  const uint64_t needed = (seek_ - std::min(seek_, kFramesBefore)) * kHop;
  if (needed > first_sample_) {
    const uint64_t n_past = std::min<uint64_t>(needed - first_sample_, samples_.size());
    samples_.erase(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(n_past));
    first_sample_ += n_past;
  }
  samples_.insert(samples_.end(), samples, samples + n);
  n_received_ += n;
}

MelSpectrogram LiveTranscriber::log_mel(uint32_t n_frames, uint64_t& n_before) {
  n_before = std::min(seek_, kFramesBefore);
  const uint64_t begin = (seek_ - n_before) * kHop - first_sample_;
  const uint64_t end = std::min<uint64_t>(
      samples_.size(), (seek_ + n_frames + kFramesBefore) * kHop - first_sample_);
  MelSpectrogram mel(static_cast<int>(model_.n_mels()), model_.mel_filters());
  mel.push(samples_.data() + begin, end - begin);
  mel.finish();
  maximum_ = std::max(maximum_, mel.maximum());
  return mel;
}

void LiveTranscriber::encode(uint32_t n_frames) {
  uint64_t n_before = 0;
  const MelSpectrogram mel = log_mel(n_frames, n_before);
  const uint64_t n_there = std::min<uint64_t>(mel.content_frames(), n_before + n_frames);
  end_of_sound_ = static_cast<uint32_t>(end_of_sound(loudness_of(mel, n_before, n_there)));
  MelFrames cut;
  cut.first_frame = n_before;
  cut.n_frames = model_.n_frames();
  cut.end_frame = cut.first_frame + n_frames;
  cut.least_maximum = maximum_;
  mel.window(cut, window_.data());
  const float* const windows[] = {window_.data()};
  model_.encode(windows);
}

bool LiveTranscriber::find_language(uint32_t n_frames, bool is_whole) {
  if (language_is_given_ || language_is_found_ || is_mixed_) return true;
  if (!is_whole && !final_.empty()) return true;
  const Transcriber::Language detected = transcriber_.detect_language();
  language_ = transcript_.language = detected.code;
  transcript_.language_probability = detected.probability;
  return is_whole || detected.probability >= settings_.language_detection_threshold ||
         n_frames >= kFramesForLanguage;
}

uint32_t LiveTranscriber::follow_languages(uint32_t n_frames) {
  uint64_t n_before = 0;
  const MelSpectrogram mel = log_mel(n_frames, n_before);
  const uint64_t end = std::min<uint64_t>(mel.content_frames(), n_before + n_frames);
  const auto detect = [&](uint64_t from, uint64_t to) {
    const auto key = std::pair(seek_ + from - n_before, seek_ + to - n_before);
    if (const auto known = part_languages_.find(key); known != part_languages_.end()) {
      return known->second;
    }
    MelFrames part;
    part.first_frame = from;
    part.n_frames = model_.n_frames();
    part.end_frame = to;
    part.least_maximum = maximum_;
    return part_languages_[key] = transcriber_.languages_in(mel, part, window_);
  };
  std::erase_if(part_languages_, [&](const auto& part) { return part.first.second <= seek_; });
  std::optional<size_t> before;
  if (language_is_found_) before = Transcriber::number_of_language(language_);
  const MixedLanguages::Spoken spoken =
      MixedLanguages(mel, n_before, end, settings_.language_detection_threshold, detect)
          .at(n_before, n_frames, before);
  Transcriber::go_on_in(spoken, language_is_found_, language_, history_, transcript_);
  return static_cast<uint32_t>(spoken.end >= end ? n_frames : spoken.end - n_before);
}

DecodeTask LiveTranscriber::task() const {
  DecodeTask task =
      transcriber_.task_for(history_, language_, is_first_ && final_.empty(), settings_);
  if (final_.empty()) return task;
  task.prompt.insert(task.prompt.end(), final_.begin(), final_.end());
  task.n_given = static_cast<uint32_t>(final_.size());
  const uint32_t n_text_ctx = model_.decoder().n_text_ctx();
  const auto n_prompt = static_cast<uint32_t>(task.prompt.size()) - task.n_given;
  task.max_tokens =
      std::min({task.max_tokens + task.n_given, n_text_ctx / 2, n_text_ctx - n_prompt + 1});
  return task;
}

std::vector<CaptionWord> LiveTranscriber::words_of(std::span<const int32_t> guess, double end_s,
                                                   size_t n_given) const {
  CaptionTokens tokens;
  tokens.end_of_text = model_.tokens().eot;
  tokens.timestamp_begin = model_.tokens().timestamp_begin;
  tokens.by_character = is_written_without_spaces(language_);
  tokens.bytes_of = [&](int32_t id) { return model_.tokenizer().bytes_of(id); };
  tokens.n_given = n_given;
  return caption_words(guess, tokens, static_cast<double>(seek_) * kFrameSeconds, end_s);
}

void LiveTranscriber::say_partial(std::span<const CaptionWord> words) {
  if (words.empty() && !has_partial_) return;
  has_partial_ = !words.empty();
  if (events_.on_partial) events_.on_partial(words, received_s());
}

bool LiveTranscriber::transcribe_whole_windows() {
  const uint64_t before = seek_;
  while (frames_received() >= seek_ + model_.n_frames()) transcribe_window(model_.n_frames());
  return seek_ > before;
}

Transcriber::Decoded LiveTranscriber::guess(uint32_t n_frames) {
  DecodingSettings settings = settings_;
  settings.temperatures.resize(1);
  DecodeTask guess = task();
  // Nobody speaks faster: a guess that goes round ends sooner than a window's text may be long.
  constexpr double kTokensPerSecond = 15, kMoreTokens = 24;
  const double end_s = static_cast<double>(seek_ + n_frames) * kFrameSeconds;
  const double since_s = end_s - std::max(final_end_s_, static_cast<double>(seek_) * kFrameSeconds);
  guess.max_tokens =
      std::min(guess.max_tokens,
               guess.n_given +
                   static_cast<uint32_t>(kMoreTokens + kTokensPerSecond * std::max(0.0, since_s)));
  // Not looked at for what it leaves out: that the full window will have.
  Transcriber::Decoded decoded = transcriber_.decode_until_passed(guess, settings, settings_.seed);
  // After a sentence a model tends to end, as if the next one, which has only begun, were not
  // there.
  constexpr uint32_t kLeftOut = 200, kSlack = 100;
  const std::vector<int32_t>& tokens = decoded.result.tokens;
  const int32_t begin = model_.tokens().timestamp_begin;
  if (!settings_.policy.extend_guesses || decoded.is_silent || tokens.empty() ||
      tokens.back() < begin ||
      static_cast<uint32_t>(tokens.back() - begin) * kFramesPerTimestamp + kLeftOut >=
          end_of_sound_) {
    return decoded;
  }
  guess.speech_end = (end_of_sound_ - kSlack) / kFramesPerTimestamp;
  Transcriber::Decoded longer =
      transcriber_.attempt(guess, settings.temperatures.front(), settings);
  WindowEvidence evidence = longer.evidence;  // of what is new alone
  const size_t n_new = longer.result.tokens.size() - guess.n_given;
  evidence.avg_logprob = longer.result.sum_logprob / static_cast<double>(n_new + 1);
  if (longer.is_silent || evidence.loops || !is_believable(evidence, settings)) return decoded;
  return longer;
}

void LiveTranscriber::transcribe_beginning() {
  const uint64_t received = frames_received();
  if (received < seek_ + kFewestFrames || received == decoded_frames_) return;
  decoded_frames_ = received;
  const auto n_frames =
      static_cast<uint32_t>(std::min<uint64_t>(received - seek_, model_.n_frames()));
  // A window without room for more words is as good as full.
  if (final_.size() + 16 > model_.decoder().n_text_ctx() / 2) return transcribe_window(n_frames);
  if (is_mixed_) {
    const uint32_t limit = follow_languages(n_frames);
    // A part that is short may yet turn out to be in the language before it.
    if (limit + kFramesOfAnother <= n_frames) return transcribe_window(n_frames);
  }
  encode(n_frames);
  if (!find_language(n_frames, false)) return;
  const Transcriber::Decoded decoded = guess(n_frames);
  const DecodeResult& result = decoded.result;
  const bool is_silent = decoded.is_silent && final_.empty();
  const bool is_repetitive =
      settings_.compression_ratio_threshold &&
      decoded.evidence.compression_ratio > *settings_.compression_ratio_threshold;
  if (is_silent || is_repetitive || (decoded.evidence.loops && settings_.policy.fail_loops)) {
    agreement_.forget();
    return say_partial({});
  }
  const double end_s = static_cast<double>(seek_ + n_frames) * kFrameSeconds;
  std::vector<CaptionWord> words = words_of(result.tokens, end_s, final_.size());
  time_words(words, result.tokens, n_frames);
  const auto first = std::ranges::find_if(
      words, [&](const CaptionWord& word) { return word.end_token > final_.size(); });
  std::vector<CaptionWord> open(first, words.end());
  // In a pause a model goes on with what is likely to be said, twice if need be.
  constexpr double kInexactSeconds = 0.2;
  const double sound_end_s =
      end_of_sound_ > 0 ? static_cast<double>(seek_ + end_of_sound_) * kFrameSeconds : end_s;
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
    open.front().text.erase(0, last.text.size());  // the marks behind the last word
    open.front().opens_segment = false;
    if (open.front().text.empty()) open.erase(open.begin());
  }
  say_partial(open);
}

void LiveTranscriber::time_words(std::span<CaptionWord> words, std::span<const int32_t> guess,
                                 uint32_t n_frames) {
  if (words.empty() || words.back().end_token <= final_.size()) return;
  constexpr uint32_t kFramesPerPosition = 2;
  // What follows a word on the way to the next one is a pause.
  constexpr double kMostSecondsPerByte = 0.08, kMostSecondsMore = 0.1;
  AlignmentTask task;
  task.start = transcriber_.start_sequence(language_, settings_);
  if (task.start.back() == model_.tokens().notimestamps) task.start.pop_back();
  task.n_positions = n_frames / kFramesPerPosition;
  std::vector<size_t> text_begins(guess.size() + 1);  // tokens that are text before each
  for (size_t i = 0; i < guess.size(); ++i) {
    text_begins[i] = task.text.size();
    if (guess[i] < model_.tokens().eot) task.text.push_back(guess[i]);
  }
  text_begins.back() = task.text.size();
  const TokenAlignment alignment = model_.aligner().align({&task, 1}).front();
  const double window_s = static_cast<double>(seek_) * kFrameSeconds;
  const auto at_s = [&](size_t token) {
    return window_s + alignment.positions[text_begins[token]] * kSecondsPerPosition;
  };
  size_t begin = 0;  // of the word in the guess
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
  if (is_mixed_) n_frames = follow_languages(n_frames);
  encode(n_frames);
  find_language(n_frames, true);
  agreement_.forget();
  const DecodeTask window_task = transcriber_.task_for(history_, language_, is_first_, settings_);
  const Transcriber::Decoded decoded =
      transcriber_.decode(window_task, settings_, Transcriber::window_seed(settings_, seek_));
  is_first_ = false;
  const double end_s = static_cast<double>(seek_ + n_frames) * kFrameSeconds;
  if (decoded.is_silent) {
    say_final_alone(end_s);
    seek_ += n_frames;
    return say_partial({});
  }
  language_is_found_ = true;
  if (decoded.is_alone && window_task.start_of_transcript > 0) history_.forget();
  WindowSegments cut =
      cut_window(decoded.result.tokens, model_.tokens().timestamp_begin, seek_, n_frames);
  if (decoded.evidence.loops && !decoded.is_chant && settings_.policy.drop_loops) {
    transcriber_.drop_loop(cut, seek_, transcript_);
  }
  const size_t n_segments = transcript_.segments.size();
  say_window(cut, decoded, end_s);
  say_partial({});
  if (!settings_.condition_on_previous_text ||
      decoded.temperature > Transcriber::kTrustworthyTemperature) {
    history_.forget();
  }
  // A window that says nothing, and that the next begins where it does, would go on for ever.
  constexpr uint32_t kLeastAdvance = 100;
  const bool is_said = n_segments < transcript_.segments.size();
  if (!is_said && settings_.policy.advance_past_silence) {
    cut.advance_frames = std::max(cut.advance_frames, kLeastAdvance);
  }
  seek_ += cut.advance_frames;
}

void LiveTranscriber::say_segment(Segment segment) {
  segment.id = static_cast<int>(transcript_.segments.size());
  segment.seek = static_cast<int64_t>(seek_);
  segment.language = language_;
  if (events_.on_segment) events_.on_segment(segment);
  transcript_.segments.push_back(std::move(segment));
}

void LiveTranscriber::say_final_alone(double end_s) {
  if (final_.empty()) return;
  Segment segment;
  segment.text = transcriber_.text_of(final_);
  segment.start_s = static_cast<double>(seek_) * kFrameSeconds;
  segment.end_s = std::max(segment.start_s, end_s);
  segment.tokens = std::exchange(final_, {});
  say_segment(std::move(segment));
}

void LiveTranscriber::say_window(const WindowSegments& cut, const Transcriber::Decoded& decoded,
                                 double end_s) {
  std::vector<int32_t> ids;  // of the segments, one behind the other
  std::vector<const WindowSegment*> parts;
  std::vector<size_t> part_ends;  // of ids
  for (const WindowSegment& part : cut.segments) {
    // Said in no time, or nothing: neither shown nor part of the next prompt.
    if (part.start_s == part.end_s || trimmed(transcriber_.text_of(part.tokens)).empty()) continue;
    ids.insert(ids.end(), part.tokens.begin(), part.tokens.end());
    parts.push_back(&part);
    part_ends.push_back(ids.size());
    history_.add(part.tokens);
  }
  const std::vector<CaptionWord> whole = words_of(ids, end_s, 0);
  if (whole.empty()) return say_final_alone(end_s);
  const std::vector<CaptionWord> shown = words_of(final_, final_end_s_, 0);
  ShownPart part = find_shown(shown, whole);
  // Words behind the last segment are what the next window begins with, if it begins there.
  const double cut_end_s = static_cast<double>(seek_ + cut.advance_frames) * kFrameSeconds;
  if (cut_end_s >= end_s) part.stands_for.resize(shown.size(), whole.size() - 1);

  const auto is_text = [&](int32_t id) { return id < model_.tokens().eot; };
  size_t next_shown = 0, next = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<int32_t> said;
    std::vector<CaptionWord> added;
    const auto say = [&](const std::vector<int32_t>& from, size_t begin, size_t end) {
      std::copy_if(from.begin() + static_cast<std::ptrdiff_t>(begin),
                   from.begin() + static_cast<std::ptrdiff_t>(end), std::back_inserter(said),
                   is_text);
    };
    for (; next < whole.size() && whole[next].end_token <= part_ends[p]; ++next) {
      for (; next_shown < part.stands_for.size() && part.stands_for[next_shown] == next;
           ++next_shown) {
        say(final_, next_shown == 0 ? 0 : shown[next_shown - 1].end_token,
            shown[next_shown].end_token);
      }
      const CaptionWord& word = whole[next];
      if (next >= part.n_whole) {
        say(ids, next == 0 ? 0 : whole[next - 1].end_token, word.end_token);
        added.push_back(word);
      } else if (next + 1 == part.n_whole && next_shown == shown.size() && word.stem_bytes > 0 &&
                 word.stem_bytes < word.text.size()) {
        // The marks behind the last word, which were left open.
        say(ids, word.stem_end_token, word.end_token);
        CaptionWord& marks = added.emplace_back(word);
        marks.text.erase(0, word.stem_bytes);
        marks.opens_segment = false;
      }
    }
    if (said.empty()) continue;
    if (!added.empty() && events_.on_final) events_.on_final(added, received_s());
    WindowSegment spoken = *parts[p];
    const auto first = std::ranges::find_if(spoken.tokens, is_text);
    const auto last = std::find_if(spoken.tokens.rbegin(), spoken.tokens.rend(), is_text).base();
    std::vector<int32_t> tokens(spoken.tokens.begin(), first);
    tokens.insert(tokens.end(), said.begin(), said.end());
    tokens.insert(tokens.end(), last, spoken.tokens.end());
    spoken.tokens = std::move(tokens);
    if (is_mixed_) {
      // What comes behind is another's, though the model may not know where the sound ends.
      spoken.start_s = std::min(spoken.start_s, end_s);
      spoken.end_s = std::min(spoken.end_s, end_s);
    }
    say_segment(transcriber_.segment_of(spoken, decoded));
  }
  carry_over(next_shown == 0 ? 0 : shown[next_shown - 1].end_token, cut.advance_frames);
}

void LiveTranscriber::carry_over(size_t begin, uint32_t advance_frames) {
  const int32_t first_timestamp = model_.tokens().timestamp_begin;
  const auto advance = static_cast<int32_t>(advance_frames / kFramesPerTimestamp);
  std::vector<int32_t> carried;
  for (size_t i = begin; i < final_.size(); ++i) {
    const bool is_timestamp = final_[i] >= first_timestamp;
    if (is_timestamp && carried.size() == 1) carried.clear();  // one is enough at the beginning
    if (!is_timestamp && carried.empty()) carried.push_back(first_timestamp);
    carried.push_back(is_timestamp ? std::max(first_timestamp, final_[i] - advance) : final_[i]);
  }
  final_ = std::move(carried);
}

Transcript LiveTranscriber::finish() {
  transcribe_whole_windows();
  while (seek_ < frames_received()) {
    transcribe_window(
        static_cast<uint32_t>(std::min<uint64_t>(model_.n_frames(), frames_received() - seek_)));
  }
  // What is final stays, though by the model's times the sound ended before it.
  say_final_alone(received_s());
  say_partial({});
  transcript_.duration_s = received_s();
  return std::move(transcript_);
}

}  // namespace vesper
