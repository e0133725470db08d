// Transcribes independent parts of several recordings together.
//
// In: recordings one after another, each with its complete log-mel and its parts: speech segments,
// usually of one window each (cut_at_silences of vad/), or the whole recording, whose windows
// follow one another. Out: for each recording the result of transcribe_recording for each part
// alone; it is independent of the rest of the batch. Called by session/ for batches. The rules are
// in decoder/windows/window_decoder.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "audio/mel/mel.h"
#include "decoder/windows/recording_transcriber.h"
#include "decoder/windows/window_decoder.h"
#include "vad/speech_segments.h"

namespace vesper {

struct BatchRecording {
  std::shared_ptr<const MelSpectrogram> mel;  // finished; released after its last window
  std::vector<SpeechSegment> parts;           // in order, without overlap
  // Frames in which a VAD model finds speech, in order; absent without a VAD model.
  std::optional<std::vector<SpeechSegment>> speech;
  EmitSegment on_segment;
  ReportProgress on_progress;
  std::function<void(Transcript)> on_end;
  // Asked before each window: if true, no other window of the recording is decoded.
  std::function<bool()> is_cancelled = {};
  // Has the recording's own settings, with the temperatures, search, suppressed tokens and language
  // detection segments of the batch; null: the settings of the batch.
  std::shared_ptr<const WindowDecoder> windows = {};
};
using NextRecording = std::function<std::optional<BatchRecording>()>;
// Called before every few steps with the number of windows that are decoded together in them.
using OnRound = std::function<void(uint32_t n_windows)>;

struct BatchOptions {
  // Whether `next` does not wait. While windows are decoded, it is called only then. Absent: it
  // never waits.
  std::function<bool()> is_ready = {};
  // Windows start in the order of their recordings, and the callbacks of a recording come after the
  // end of the previous one. Otherwise recordings take turns, and each ends as soon as it can: the
  // next window is of the recording with the fewest running ones, and of those the one with the
  // least audio left. Steps of few windows then take less time, but the last bits of probabilities
  // depend on how many windows run together.
  bool in_order = true;
  OnRound on_round = {};
};

// Asks for the next recording when fewer windows wait than can start, in order until there is none.
// Otherwise asks whenever a window can start, also after there was none, and ends when there is
// none and all are done. Throws Error(kUsage) for settings that the model does not support, and the
// errors of the callbacks.
void transcribe_batch(WhisperModel& model, const DecodingSettings& settings,
                      const NextRecording& next, const BatchOptions& options = {});

// The same for one recording, whose parts are speech segments.
Transcript transcribe_segments(WhisperModel& model, const MelSpectrogram& mel,
                               std::span<const SpeechSegment> segments,
                               const DecodingSettings& settings, const EmitSegment& on_segment,
                               const ReportProgress& on_progress);

}  // namespace vesper
