// Transcribes a recording, one window after the other, and detects its language.
//
// In: the complete log-mel of a recording. Out: its transcript; segments are emitted as soon as
// they are final. Called by session/ for files without a batch, by capi/ and by `inspect
// --profile`. The rules are in decoder/windows/window_decoder.h.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "audio/mel.h"
#include "decoder/windows/language_detection.h"
#include "decoder/windows/mixed_languages.h"
#include "decoder/windows/window_decoder.h"

namespace vesper {

// Called with the seconds done and in total.
using ReportProgress = std::function<void(double done_s, double total_s)>;

// `mel` is finished and has the model's number of mels. Throws Error(kUsage) for settings that the
// model cannot follow (a language it does not know).
Transcript transcribe_recording(WhisperModel& model, const MelSpectrogram& mel,
                                const DecodingSettings& settings, const EmitSegment& on_segment,
                                const ReportProgress& on_progress);

// The languages that a recording may be in, most probable first, by up to
// settings.language_detection_segments windows from its start or the start of its first clip.
// Throws Error(kUsage) if the model knows English only.
std::vector<LanguageProbability> detect_languages(WhisperModel& model, const MelSpectrogram& mel,
                                                  const DecodingSettings& settings);

// A recording with a complete log-mel, for the drivers: what is known of it, and its windows.
class RecordingWindows {
 public:
  // Detects the language if that takes several windows. Both must outlive this.
  RecordingWindows(const WindowDecoder& decoder, const MelSpectrogram& mel);

  RecordingState state;
  AudioWindow window;  // that was encoded last

  // Encodes the cursor's next window to `slot`. Returns false if it is uniform silence: the cursor
  // has moved behind it.
  bool encode_next(WindowCursor& cursor, uint32_t slot);
  // Decodes the cursor's next window, which was encoded to slot 0.
  WindowResult decode(WindowCursor& cursor);

 private:
  void follow_language(WindowCursor& cursor);

  const WindowDecoder& decoder_;
  const MelSpectrogram& mel_;
  std::optional<MixedLanguages> languages_;  // up to the end of the cursor used last
};

}  // namespace vesper
