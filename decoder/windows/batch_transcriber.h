// Transcribes independent segments of one or several recordings together.
//
// In: recordings one after the other, each with its complete log-mel and segments of it, usually of
// one window each (cut_at_silences of vad/). Out: for each recording, in order, what
// transcribe_recording would make of each segment alone; the result does not depend on the rest of
// the batch. Called by session/ for batches. The rules are in decoder/windows/window_decoder.h.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "audio/mel.h"
#include "decoder/windows/recording_transcriber.h"
#include "decoder/windows/window_decoder.h"
#include "vad/speech_segments.h"

namespace vesper {

struct BatchRecording {
  std::shared_ptr<const MelSpectrogram> mel;  // finished; released when no window is left
  std::vector<SpeechSegment> segments;        // in order, without overlap
  // Called in the order of the recordings: for one, nothing before the end of the one before it.
  EmitSegment on_segment;
  ReportProgress on_progress;
  std::function<void(Transcript)> on_end;
};
using NextRecording = std::function<std::optional<BatchRecording>()>;

// Asks for the next recording when no window of those before it waits, until there is none. Throws
// Error(kUsage) for settings that the model cannot follow, and what the callbacks throw.
void transcribe_batch(WhisperModel& model, const DecodingSettings& settings,
                      const NextRecording& next);

// The same for one recording.
Transcript transcribe_segments(WhisperModel& model, const MelSpectrogram& mel,
                               std::span<const SpeechSegment> segments,
                               const DecodingSettings& settings, const EmitSegment& on_segment,
                               const ReportProgress& on_progress);

}  // namespace vesper
