// Finds the languages of a recording that mixes several.
//
// A model omits or translates speech in a language other than the given one, and a window of 30 s
// may have several. So audio is cut at pauses into speech segments of a few seconds, the model
// detects the language of each, and a window ends where the language changes. Called by
// decoder/windows/window_decoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "audio/mel/mel.h"

namespace vesper {

// Cuts frames with this loudness (decoder/windows/loudness.h) at every pause, and long audio
// without a pause where it is quietest. Returns the end frame of each part.
std::vector<size_t> cut_at_pauses(std::span<const float> loudness);

// Language detection of a part.
struct PartLanguages {
  double seconds;
  std::vector<float> probabilities;  // [n_languages]; empty for digital silence
};

// The most probable languages of successive parts if changes are rare. A part without
// probabilities, or without a language of at least 0.6 of the threshold, is ignored. `before` is
// the language before the first part, if known. If all parts are ignored: `before`, or the language
// with the greatest mean; 0 without any probabilities.
std::vector<size_t> likeliest_languages(std::span<const PartLanguages> parts,
                                        std::optional<size_t> before, double threshold);

class MixedLanguages {
 public:
  // The language probabilities of frames [begin, end).
  using Detect = std::function<std::vector<float>(uint64_t begin, uint64_t end)>;

  // For frames [begin, end) of a recording.
  MixedLanguages(const MelSpectrogram& mel, uint64_t begin, uint64_t end, double threshold,
                 Detect detect);

  struct Spoken {
    size_t language;     // index
    double probability;  // 0 without speech
    uint64_t end;        // frame where another language or the `n_frames` end
  };
  // The language from `seek` on, within the next `n_frames`; `before` is the previous language.
  // Each part is detected once.
  Spoken at(uint64_t seek, uint32_t n_frames, std::optional<size_t> before);

  uint64_t end() const { return end_; }

 private:
  struct Part {
    uint64_t begin, end;
    bool is_known = false;
    std::vector<float> probabilities = {};  // empty for digital silence
  };

  const MelSpectrogram& mel_;
  uint64_t end_;
  double threshold_;
  Detect detect_;
  std::vector<Part> parts_;
};

}  // namespace vesper
