// The log-mel spectrogram: 16 kHz mono in, rows of log10 mel energies out, 100 a second.
//
// The definition is that of openai-whisper's audio.py and transcribe.py: 30 s of silence appended,
// short-time DFT of 400 points every 160 samples with a periodic Hann window, centred, reflect
// padding of 200 samples; power; mel filters; log10 of at least 1e-10; clamped to at most 8 below
// the maximum of the whole recording; (x + 4) / 4.
//
// As the clamp needs the whole recording's maximum, rows are kept unclamped, those of a long
// recording in a temporary file (audio/mel_rows.h), and each window is clamped when it is asked
// for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "audio/mel_filters.h"

namespace vesper {

constexpr int kMelHop = 160;            // samples from frame to frame: 10 ms
constexpr int kMelWindowFrames = 3000;  // frames of the 30 s that Whisper looks at
constexpr int kMelFramesPerSecond = 100;

// Which frames of a spectrogram are wanted, and how they are scaled.
struct MelFrames {
  // Which maximum the clamp goes by. A live stream has no whole: kWindow is the maximum of the
  // window's own content.
  enum class Maximum { kRecording, kWindow };
  // What stands beyond the content. transcribe.py cuts a segment off at the content's end and pads
  // with 0 after scaling (kZero); its language detection takes the first 30 s of the padded
  // recording as they are, silence as silence (kSilence).
  enum class Beyond { kZero, kSilence };

  size_t first_frame = 0;
  size_t n_frames = kMelWindowFrames;
  size_t end_frame = SIZE_MAX;  // content from here on is left out, for windows that end early
  Maximum maximum = Maximum::kRecording;
  float least_maximum = -10;  // that maximum is taken to be at least this, say of the stream before
  Beyond beyond = Beyond::kZero;
};

class MelSpectrogram {
 public:
  // A day. Longer input is refused: compressed silence can stand for any length in a few bytes.
  static constexpr size_t kMaxFrames = size_t{24} * 3600 * kMelFramesPerSecond;

  // `filters`: the model's own, [n_mels, 201], or empty for the Slaney ones. Throws Error(kModel)
  // for n_mels outside 1 to 512 or filters of another size.
  explicit MelSpectrogram(int n_mels, std::span<const float> filters = {});
  MelSpectrogram(MelSpectrogram&&) noexcept;
  MelSpectrogram& operator=(MelSpectrogram&&) noexcept;
  ~MelSpectrogram();

  // Takes the next samples, [n], 16 kHz. The rows do not depend on how the recording is cut into
  // pushes. Throws Error(kInput) above kMaxFrames, Error(kInternal) after `finish`.
  void push(const float* samples, size_t n);

  // The recording has ended: computes the rows that reach into the silence after it.
  void finish();

  // Leaves only these stretches of the content, one behind the other: rising, none overlapping,
  // within content_frames(). Each has its first frame and the one beyond its last. The maximum
  // becomes that of what is left, and nothing of it sounds beyond its end. After `finish`; else
  // throws Error(kInternal).
  void keep(std::span<const std::pair<size_t, size_t>> stretches);

  int n_mels() const;

  // Whole hops of content: n_samples / 160 once finished; before, the rows there are so far, which
  // lag at most 0.2 s behind what was pushed.
  size_t content_frames() const;

  // Maximum of all unclamped values so far, at least -10, which is silence.
  float maximum() const;

  // Writes unclamped log10 mel energies of `n` frames to `out`, [n, n_mels];
  // first_frame + n <= content_frames().
  void log_mel(size_t first_frame, size_t n, float* out) const;

  // Writes clamped and scaled rows to `out`, [window.n_frames, n_mels]. A window may begin beyond
  // the content.
  void window(const MelFrames& window, float* out) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vesper
