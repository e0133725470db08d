// Transcribes a recording in sequential windows, and detects its language.
//
// In: the complete log-mel of a recording. Out: its transcript; segments are emitted when they are
// final. Called by session/ for files without a batch, by capi/ and by `inspect --profile`. The
// rules are in decoder/windows/window_decoder.h.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "audio/mel/mel.h"
#include "decoder/windows/languages/language_detection.h"
#include "decoder/windows/languages/mixed_languages.h"
#include "decoder/windows/window_decoder.h"

namespace vesper {

// Called with the done and the total seconds.
using ReportProgress = std::function<void(double done_s, double total_s)>;

// `mel` is finished and has the model's number of mels. Throws Error(kUsage) for settings that the
// model does not support, such as an unknown language. `speech`: frames in which a VAD model finds
// speech, in order; absent without a VAD model.
Transcript transcribe_recording(WhisperModel& model, const MelSpectrogram& mel,
                                const DecodingSettings& settings, const EmitSegment& on_segment,
                                const ReportProgress& on_progress,
                                std::optional<std::vector<SpeechSegment>> speech = std::nullopt);

// The possible languages of a recording, most probable first, from up to
// settings.language_detection_segments windows at its start or the start of its first clip. Throws
// Error(kUsage) if the model is English-only.
std::vector<LanguageProbability> detect_languages(WhisperModel& model, const MelSpectrogram& mel,
                                                  const DecodingSettings& settings);

// A recording with a complete log-mel and its state, for the drivers.
class RecordingWindows {
 public:
  // Detects the language if that takes several windows. Both must outlive this object.
  RecordingWindows(const WindowDecoder& decoder, const MelSpectrogram& mel);

  RecordingState state;
  AudioWindow window;  // the last encoded one

  // Reads the cursor's next window as the encoder takes it. Returns false for uniform silence; the
  // cursor is then after it.
  bool read_next(WindowCursor& cursor, AudioWindow& next);
  // The same, and encodes it as window 0.
  bool encode_next(WindowCursor& cursor);
  // Decodes the cursor's next window, which is window 0.
  WindowResult decode(WindowCursor& cursor);

 private:
  void follow_language(WindowCursor& cursor);

  const WindowDecoder& decoder_;
  const MelSpectrogram& mel_;
  std::optional<MixedLanguages> languages_;  // up to the end of the last used cursor
};

}  // namespace vesper
