// The log-mel spectrogram. In: 16 kHz mono samples. Out: rows of log10 mel energies, 100 per
// second.
//
// As defined by openai-whisper's audio.py and transcribe.py: 30 s of silence appended; a 400-point
// short-time DFT every 160 samples with a periodic Hann window, centred, with 200 reflected
// samples; power; mel filters; log10 of at least 1e-10; clamped at 8 below the maximum of the
// recording; (x + 4) / 4.
//
// The clamp needs the maximum of the whole recording. So rows are kept unclamped, those of long
// recordings in a temporary file (audio/mel/mel_rows.h), and a window is clamped when it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "audio/mel/mel_filters.h"

namespace vesper {

constexpr int kMelHop = 160;            // samples from frame to frame: 10 ms
constexpr int kMelWindowFrames = 3000;  // frames in Whisper's window of 30 s
constexpr int kMelFramesPerSecond = 100;

// The frames of a spectrogram to read, and how to scale them.
struct MelFrames {
  // The maximum for the clamp: of the recording, or of the window's own content (live streams).
  enum class Maximum { kRecording, kWindow };
  // Frames after the content. transcribe.py ends a segment at the end of the content and pads it
  // with 0 after scaling (kZero). Its language detection uses the first 30 s of the recording
  // padded with silence (kSilence).
  enum class Beyond { kZero, kSilence };

  size_t first_frame = 0;
  size_t n_frames = kMelWindowFrames;
  size_t end_frame = SIZE_MAX;  // end of the content, for windows that end early
  Maximum maximum = Maximum::kRecording;
  float least_maximum = -10;  // lower limit of that maximum, such as the maximum of the previous
                              // stream
  Beyond beyond = Beyond::kZero;
};

class MelSpectrogram {
 public:
  // 24 hours. Longer input is an error: a few bytes of compressed silence may have any length.
  static constexpr size_t kMaxFrames = size_t{24} * 3600 * kMelFramesPerSecond;

  // `filters` are the model's, [n_mels, 201], or empty for Slaney's. Throws Error(kModel) if n_mels
  // is not 1 to 512 or filters have another size.
  explicit MelSpectrogram(int n_mels, std::span<const float> filters = {});
  MelSpectrogram(MelSpectrogram&&) noexcept;
  MelSpectrogram& operator=(MelSpectrogram&&) noexcept;
  ~MelSpectrogram();

  // Appends samples, [n], 16 kHz. Rows do not depend on the sizes of the pushes. Throws
  // Error(kInput) above kMaxFrames, Error(kInternal) after `finish`.
  void push(const float* samples, size_t n);

  // Ends the recording: computes the rows that include the silence after it.
  void finish();

  // Keeps only these ranges of the content [first, end), joined: ascending, without overlap, within
  // content_frames(). The maximum becomes that of the kept frames, and everything after them is
  // silence. Throws Error(kInternal) before `finish`.
  void keep(std::span<const std::pair<size_t, size_t>> ranges);

  int n_mels() const;

  // Frames of content: n_samples / 160 after finish(). Before, the available rows, at most 0.2 s
  // behind the pushed samples.
  size_t content_frames() const;

  // Maximum of the unclamped values so far, at least -10 (silence).
  float maximum() const;

  // Writes unclamped log10 mel energies of `n` frames to `out`, [n, n_mels]. Requires first_frame +
  // n <= content_frames().
  void log_mel(size_t first_frame, size_t n, float* out) const;

  // Writes clamped and scaled rows to `out`, [window.n_frames, n_mels]. A window may begin after
  // the content.
  void window(const MelFrames& window, float* out) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vesper
