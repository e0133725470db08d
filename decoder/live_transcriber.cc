#include "decoder/live_transcriber.h"

#include <algorithm>
#include <utility>

#include "audio/mel.h"
#include "decoder/loudness.h"
#include "decoder/speech_evidence.h"
#include "decoder/window_segments.h"
#include "decoder/word_times.h"
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
  transcriber_.suppress(settings_);
  language_is_given_ = settings.language != "auto" || !model.tokens().is_multilingual;
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

void LiveTranscriber::encode(uint32_t n_frames) {
  const uint64_t first = seek_ - std::min(seek_, kFramesBefore);
  const uint64_t begin = first * kHop - first_sample_;
  const uint64_t end = std::min<uint64_t>(
      samples_.size(), (seek_ + n_frames + kFramesBefore) * kHop - first_sample_);
  MelSpectrogram mel(static_cast<int>(model_.n_mels()), model_.mel_filters());
  mel.push(samples_.data() + begin, end - begin);
  mel.finish();
  maximum_ = std::max(maximum_, mel.maximum());
  const uint64_t n_there = std::min<uint64_t>(mel.content_frames(), seek_ - first + n_frames);
  end_of_sound_ = static_cast<uint32_t>(end_of_sound(loudness_of(mel, seek_ - first, n_there)));
  MelWindow cut;
  cut.first_frame = seek_ - first;
  cut.n_frames = model_.n_frames();
  cut.end_frame = cut.first_frame + n_frames;
  cut.least_maximum = maximum_;
  mel.window(cut, window_.data());
  const float* const windows[] = {window_.data()};
  model_.encode(windows);
}

bool LiveTranscriber::find_language(uint32_t n_frames) {
  if (language_is_given_ || !final_.empty()) return true;
  if (!transcript_.segments.empty() && !settings_.multilingual) return true;
  const Transcriber::Language detected = transcriber_.detect_language();
  const bool is_clear = detected.probability >= settings_.language_detection_threshold;
  if (is_clear || language_.empty()) {
    if (!language_.empty() && language_ != detected.code) history_.forget();
    language_ = detected.code;
  }
  if (transcript_.segments.empty()) {
    transcript_.language = detected.code;
    transcript_.language_probability = detected.probability;
  }
  return is_clear || n_frames >= kFramesForLanguage;
}

DecodeTask LiveTranscriber::task() const {
  const bool is_first = transcript_.segments.empty() && final_.empty();
  DecodeTask task = transcriber_.task_for(history_, language_, is_first, settings_);
  if (final_.empty()) return task;
  task.prompt.insert(task.prompt.end(), final_.begin(), final_.end());
  task.n_given = static_cast<uint32_t>(final_.size());
  const uint32_t n_text_ctx = model_.decoder().n_text_ctx();
  const auto n_prompt = static_cast<uint32_t>(task.prompt.size()) - task.n_given;
  task.max_tokens =
      std::min({task.max_tokens + task.n_given, n_text_ctx / 2, n_text_ctx - n_prompt + 1});
  return task;
}

std::vector<CaptionWord> LiveTranscriber::words_of(std::span<const int32_t> guess,
                                                   uint32_t n_frames) const {
  CaptionTokens tokens;
  tokens.end_of_text = model_.tokens().eot;
  tokens.timestamp_begin = model_.tokens().timestamp_begin;
  tokens.by_character = is_written_without_spaces(language_);
  tokens.bytes_of = [&](int32_t id) { return model_.tokenizer().bytes_of(id); };
  return caption_words(guess, tokens, static_cast<double>(seek_) * kFrameSeconds,
                       static_cast<double>(seek_ + n_frames) * kFrameSeconds);
}

void LiveTranscriber::say_partial(std::span<const CaptionWord> words) {
  if (words.empty() && !has_partial_) return;
  has_partial_ = !words.empty();
  if (events_.on_partial) events_.on_partial(words, received_s());
}

void LiveTranscriber::transcribe_whole_windows() {
  while (frames_received() >= seek_ + model_.n_frames()) transcribe_window(model_.n_frames());
}

Transcriber::Decoded LiveTranscriber::guess(uint32_t n_frames) {
  DecodingSettings settings = settings_;
  settings.temperatures.resize(1);
  settings.beam_size = 1;
  DecodeTask guess = task();
  // Nobody speaks faster: a guess that goes round ends sooner than a window's text may be long.
  constexpr double kTokensPerSecond = 15, kMoreTokens = 24;
  const double end_s = static_cast<double>(seek_ + n_frames) * kFrameSeconds;
  const double since_s = end_s - std::max(final_end_s_, static_cast<double>(seek_) * kFrameSeconds);
  guess.max_tokens =
      std::min(guess.max_tokens,
               guess.n_given +
                   static_cast<uint32_t>(kMoreTokens + kTokensPerSecond * std::max(0.0, since_s)));
  Transcriber::Decoded decoded = transcriber_.decode(guess, settings, settings_.seed);
  // After a sentence a model tends to end, as if the next one, which has only begun, were not
  // there.
  constexpr uint32_t kLeftOut = 200, kSlack = 100;
  const std::vector<int32_t>& tokens = decoded.result.tokens;
  const int32_t begin = model_.tokens().timestamp_begin;
  if (settings_.reference || decoded.is_silent || tokens.empty() || tokens.back() < begin ||
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
  if (longer.is_silent || evidence.loops || !is_convincing(evidence, settings)) return decoded;
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
  encode(n_frames);
  if (!find_language(n_frames)) return;
  const Transcriber::Decoded decoded = guess(n_frames);
  const DecodeResult& result = decoded.result;
  const bool is_silent = decoded.is_silent && final_.empty();
  const bool is_repetitive =
      settings_.compression_ratio_threshold &&
      decoded.evidence.compression_ratio > *settings_.compression_ratio_threshold;
  if (is_silent || is_repetitive || (decoded.evidence.loops && !settings_.reference)) {
    agreement_.forget();
    return say_partial({});
  }
  const std::vector<CaptionWord> words = words_of(result.tokens, n_frames);
  const auto first = std::ranges::find_if(
      words, [&](const CaptionWord& word) { return word.end_token > final_.size(); });
  const std::span<const CaptionWord> open(first, words.end());
  const double end_s = static_cast<double>(seek_ + n_frames) * kFrameSeconds;
  // In a pause a model goes on with what is likely to be said, twice if need be.
  constexpr double kInexactSeconds = 0.2;
  const double sound_end_s =
      end_of_sound_ > 0 ? static_cast<double>(seek_ + end_of_sound_) * kFrameSeconds : end_s;
  const auto n_said = std::ranges::find_if(open,
                                           [&](const CaptionWord& word) {
                                             return word.start_s > sound_end_s + kInexactSeconds;
                                           }) -
                      open.begin();
  const size_t n =
      agreement_.agree(open.first(static_cast<size_t>(n_said)), end_s, kPatienceSeconds);
  if (n > 0) {
    final_.assign(result.tokens.begin(),
                  result.tokens.begin() + static_cast<std::ptrdiff_t>(open[n - 1].end_token));
    final_end_s_ = open[n - 1].end_s;
    if (events_.on_final) events_.on_final(open.first(n), received_s());
  }
  say_partial(open.subspan(n));
}

void LiveTranscriber::transcribe_window(uint32_t n_frames) {
  const WhisperTokens& tokens = model_.tokens();
  encode(n_frames);
  find_language(n_frames);
  agreement_.forget();
  const DecodeTask window_task = task();
  const Transcriber::Decoded decoded =
      transcriber_.decode(window_task, settings_, Transcriber::window_seed(settings_, seek_));
  const DecodeResult& result = decoded.result;
  if (final_.empty() && decoded.is_silent) {
    seek_ += n_frames;
    return say_partial({});
  }
  if (decoded.is_alone && window_task.start_of_transcript > 0) history_.forget();
  WindowSegments cut = cut_window(result.tokens, tokens.timestamp_begin, seek_, n_frames);
  if (final_.empty() && decoded.evidence.loops && !decoded.is_chant && !settings_.reference) {
    transcriber_.drop_loop(cut, seek_, transcript_);
  }
  const std::vector<CaptionWord> words = words_of(result.tokens, n_frames);
  size_t n_cut = 0;  // tokens of the segments so far
  for (const WindowSegment& part : cut.segments) {
    const size_t begin = std::exchange(n_cut, n_cut + part.tokens.size());
    Segment segment = transcriber_.segment_of(part, decoded);
    // What was said in no time is not shown, unless it has been already.
    const bool is_said = begin < final_.size();
    if (trimmed(segment.text).empty() || (part.start_s == part.end_s && !is_said)) continue;
    const auto in_segment = [&](const CaptionWord& word) {
      return word.end_token > std::max(begin, final_.size()) && word.end_token <= n_cut;
    };
    const auto first = std::ranges::find_if(words, in_segment);
    const auto last = std::find_if_not(first, words.end(), in_segment);
    if (first != last && events_.on_final) events_.on_final({first, last}, received_s());
    segment.id = static_cast<int>(transcript_.segments.size());
    segment.seek = static_cast<int64_t>(seek_);
    segment.language = language_;
    history_.add(part.tokens);
    if (events_.on_segment) events_.on_segment(segment);
    transcript_.segments.push_back(std::move(segment));
  }
  say_partial({});
  if (!settings_.condition_on_previous_text ||
      decoded.temperature > Transcriber::kTrustworthyTemperature) {
    history_.forget();
  }

  // Words that are final but not in a segment yet are those that the next window begins with.
  std::vector<int32_t> carried;
  if (final_.size() > n_cut) {
    const auto advance = static_cast<int32_t>(cut.advance_frames / kFramesPerTimestamp);
    carried.assign(final_.begin() + static_cast<std::ptrdiff_t>(n_cut), final_.end());
    if (carried.front() < tokens.timestamp_begin) carried.insert(carried.begin(), 0);
    carried.front() = std::max(tokens.timestamp_begin, carried.front() - advance);
  }
  final_ = std::move(carried);
  seek_ += cut.advance_frames;
}

Transcript LiveTranscriber::finish() {
  transcribe_whole_windows();
  while (seek_ < frames_received()) {
    transcribe_window(
        static_cast<uint32_t>(std::min<uint64_t>(model_.n_frames(), frames_received() - seek_)));
  }
  // What is final stays, though by the model's times the sound ended before it.
  if (!final_.empty()) {
    Segment segment;
    segment.id = static_cast<int>(transcript_.segments.size());
    segment.seek = static_cast<int64_t>(seek_);
    segment.text = transcriber_.text_of(final_);
    segment.start_s = transcript_.segments.empty() ? 0 : transcript_.segments.back().end_s;
    segment.end_s = std::max(segment.start_s, received_s());
    segment.tokens = std::exchange(final_, {});
    segment.language = language_;
    if (events_.on_segment) events_.on_segment(segment);
    transcript_.segments.push_back(std::move(segment));
  }
  say_partial({});
  transcript_.duration_s = received_s();
  return std::move(transcript_);
}

}  // namespace vesper
