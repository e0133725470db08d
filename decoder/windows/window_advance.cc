// The step after a decoded window: its segments and the start of the next window.
#include <algorithm>
#include <cmath>
#include <utility>

#include "decoder/transcript/segment_cutting.h"
#include "decoder/transcript/text_lines.h"
#include "decoder/windows/window_decoder.h"
#include "decoder/words/word_times.h"

namespace vesper {
namespace {

// Reasons in Transcript::dropped.
constexpr const char* kNoSpeech = "no speech";

// Text decoded above this temperature is a bad prompt (openai-whisper).
constexpr double kTrustworthyTemperature = 0.5;

}  // namespace

void WindowDecoder::skip(WindowCursor& cursor) const {
  cursor.seek += cursor.n_frames(model_.n_frames());
}

CutWindow WindowDecoder::cut(RecordingState& state, WindowCursor& cursor,
                             const WindowResult& result, uint32_t encoded) const {
  const uint32_t n_frames = cursor.n_frames(model_.n_frames());
  const double start_s = static_cast<double>(cursor.seek) * kFrameSeconds;
  cursor.is_first = false;
  CutWindow cut;
  cut.temperature = result.temperature;
  if (result.is_silent) {
    // Text that only our rules reject is reported.
    if (!is_silent_by_reference(result.evidence, settings_)) {
      state.transcript.dropped.push_back({start_s, start_s + n_frames * kFrameSeconds, kNoSpeech,
                                          trimmed(text_of(result.decoded.tokens))});
    }
    cut.is_silent = true;
    return cut;
  }
  state.language_is_found = true;
  const WindowSegments parts =
      cut_window(result.decoded.tokens, model_.tokens().timestamp_begin, cursor.seek, n_frames);
  for (const WindowSegment& part : parts.segments) {
    cut.segments.push_back(segment_of(part, result, cursor));
  }
  cut.next_seek = cursor.seek + parts.advance_frames;
  cut.to_the_end = parts.to_the_end;
  if (settings_.word_timestamps && !cut.segments.empty()) {
    std::vector<int32_t> ids;
    for (const Segment& segment : cut.segments) {
      ids.insert(ids.end(), segment.tokens.begin(), segment.tokens.end());
    }
    AlignmentTask task = alignment_task(cut.segments.front().language, ids, n_frames);
    task.window = encoded;
    if (!task.text.empty() && task.n_positions > 0) cut.words = std::move(task);
  }
  return cut;
}

std::vector<Segment> WindowDecoder::advance(const RecordingState& state, WindowCursor& cursor,
                                            CutWindow cut, const TokenAlignment* found) const {
  if (cut.is_silent) {
    skip(cursor);
    return {};
  }
  std::vector<Segment>& segments = cut.segments;
  uint64_t next_seek = cut.next_seek;
  if (settings_.word_timestamps && !segments.empty()) {
    const WindowPlace window{cursor.seek, cursor.n_frames(model_.n_frames()), model_.n_frames(),
                             state.n_content_frames, cursor.last_speech_s};
    const AfterWindow after = time_words(cut, window, found);
    next_seek = std::max(after.seek, cursor.seek + 1);
    if (after.again) {
      cursor.seek = next_seek;
      return {};
    }
    if (!segments.empty()) cursor.last_speech_s = end_of_speech_s(segments);
  }
  // A segment without text or duration is neither emitted nor part of the next prompt.
  std::erase_if(segments, [](const Segment& segment) {
    return segment.start_s == segment.end_s || trimmed(segment.text).empty();
  });
  for (const Segment& segment : segments) cursor.history.add(segment.tokens);
  if (!settings_.condition_on_previous_text || cut.temperature > kTrustworthyTemperature) {
    cursor.history.forget();
  }
  cursor.seek = next_seek;
  return std::move(segments);
}

std::vector<Segment> WindowDecoder::advance(RecordingState& state, WindowCursor& cursor,
                                            const WindowResult& result, uint32_t encoded) const {
  CutWindow window = cut(state, cursor, result, encoded);
  std::vector<TokenAlignment> found;
  if (window.words) found = model_.aligner().align({&*window.words, 1});
  return advance(state, cursor, std::move(window), found.empty() ? nullptr : &found.front());
}

Segment WindowDecoder::segment_of(const WindowSegment& part, const WindowResult& result,
                                  const WindowCursor& cursor) const {
  Segment segment;
  segment.seek = static_cast<int64_t>(cursor.seek);
  segment.start_s = part.start_s;
  segment.end_s = part.end_s;
  if (follows_languages()) {
    // Audio after the limit is in another language.
    const double limit_s = static_cast<double>(cursor.limit) * kFrameSeconds;
    segment.start_s = std::min(segment.start_s, limit_s);
    segment.end_s = std::min(segment.end_s, limit_s);
  }
  segment.text = text_of(part.tokens);
  segment.tokens = part.tokens;
  segment.avg_logprob = result.decoded.avg_logprob();
  segment.no_speech_prob = result.decoded.no_speech_prob;
  segment.compression_ratio = result.evidence.compression_ratio;
  segment.temperature = result.temperature;
  segment.language = cursor.language;
  return segment;
}

std::vector<std::string_view> WindowDecoder::token_bytes(std::span<const int32_t> ids) const {
  std::vector<std::string_view> bytes;
  for (const int32_t id : text_tokens(ids)) bytes.push_back(model_.tokenizer().bytes_of(id));
  return bytes;
}

AfterWindow WindowDecoder::time_words(CutWindow& cut, const WindowPlace& window,
                                      const TokenAlignment* found) const {
  std::vector<Segment>& segments = cut.segments;
  const double offset_s = static_cast<double>(window.seek) * kFrameSeconds;
  if (cut.words) {
    const bool by_character = is_written_without_spaces(segments.front().language);
    add_words(segments,
              vesper::time_words(split_words(token_bytes(cut.words->text), by_character),
                                 found->positions, found->probabilities),
              model_.tokens().eot, offset_s, window.last_speech_s, settings_.punctuation);
  }
  if (settings_.hallucination_silence_threshold_s) {
    return skip_hallucinations(segments, window, cut.next_seek, cut.to_the_end,
                               *settings_.hallucination_silence_threshold_s, settings_.policy);
  }
  const double end_s = end_of_speech_s(segments);
  if (!cut.to_the_end && end_s > offset_s) {
    return {static_cast<uint64_t>(std::llrint(end_s * kMelFramesPerSecond)), false};
  }
  return {cut.next_seek, false};
}

void WindowDecoder::emit_segment(Transcript& transcript, Segment segment,
                                 const EmitSegment& on_segment) const {
  std::vector<Segment> pieces;
  if (settings_.max_segment_length) {
    std::vector<Word> parts = words_of(segment);
    if (!settings_.split_on_word) parts = split_at_tokens(parts, token_bytes(segment.tokens));
    pieces =
        cut_segment(segment, std::move(parts), *settings_.max_segment_length, model_.tokens().eot);
  } else {
    pieces.push_back(std::move(segment));
  }
  for (Segment& piece : pieces) {
    piece.id = static_cast<int>(transcript.segments.size());
    piece.language_probability = transcript.language_probability;
    if (on_segment) on_segment(piece);
    transcript.segments.push_back(std::move(piece));
  }
}

Transcript WindowDecoder::finish(RecordingState state) const {
  Transcript& transcript = state.transcript;
  if (!state.language_is_found && settings_.policy.require_speech_for_language) {
    transcript.language.clear();
    transcript.language_probability = 0;
  }
  std::ranges::stable_sort(transcript.dropped, {}, &DroppedSpan::start_s);
  return std::move(transcript);
}

}  // namespace vesper
