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

std::vector<Segment> WindowDecoder::advance(RecordingState& state, WindowCursor& cursor,
                                            const WindowResult& result, uint32_t slot) const {
  const uint32_t n_frames = cursor.n_frames(model_.n_frames());
  const double start_s = static_cast<double>(cursor.seek) * kFrameSeconds;
  cursor.is_first = false;
  if (result.is_silent) {
    // Text that only our rules reject is reported.
    if (!is_silent_by_reference(result.evidence, settings_)) {
      state.transcript.dropped.push_back({start_s, start_s + n_frames * kFrameSeconds, kNoSpeech,
                                          trimmed(text_of(result.decoded.tokens))});
    }
    skip(cursor);
    return {};
  }
  state.language_is_found = true;
  const WindowSegments cut =
      cut_window(result.decoded.tokens, model_.tokens().timestamp_begin, cursor.seek, n_frames);
  std::vector<Segment> segments;
  for (const WindowSegment& part : cut.segments) {
    segments.push_back(segment_of(part, result, cursor));
  }
  uint64_t next_seek = cursor.seek + cut.advance_frames;
  if (settings_.word_timestamps && !segments.empty()) {
    const WindowPlace window{cursor.seek, n_frames, model_.n_frames(), state.n_content_frames,
                             cursor.last_speech_s};
    const AfterWindow after = time_words(segments, window, slot, next_seek, cut.to_the_end);
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
  if (!settings_.condition_on_previous_text || result.temperature > kTrustworthyTemperature) {
    cursor.history.forget();
  }
  cursor.seek = next_seek;
  return segments;
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

AfterWindow WindowDecoder::time_words(std::vector<Segment>& segments, const WindowPlace& window,
                                      uint32_t slot, uint64_t seek, bool to_the_end) const {
  const std::string& language = segments.front().language;
  std::vector<int32_t> ids;
  for (const Segment& segment : segments) {
    ids.insert(ids.end(), segment.tokens.begin(), segment.tokens.end());
  }
  AlignmentTask task = alignment_task(language, ids, window.n_frames);
  task.window = slot;
  const double offset_s = static_cast<double>(window.seek) * kFrameSeconds;
  if (!task.text.empty() && task.n_positions > 0) {
    const TokenAlignment found = std::move(model_.aligner().align({&task, 1}).front());
    add_words(
        segments,
        vesper::time_words(split_words(token_bytes(task.text), is_written_without_spaces(language)),
                           found.positions, found.probabilities),
        model_.tokens().eot, offset_s, window.last_speech_s, settings_.punctuation);
  }
  if (settings_.hallucination_silence_threshold_s) {
    return skip_hallucinations(segments, window, seek, to_the_end,
                               *settings_.hallucination_silence_threshold_s, settings_.policy);
  }
  const double end_s = end_of_speech_s(segments);
  if (!to_the_end && end_s > offset_s) {
    seek = static_cast<uint64_t>(std::llrint(end_s * kMelFramesPerSecond));
  }
  return {seek, false};
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
