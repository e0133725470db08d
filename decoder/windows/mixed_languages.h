// Where in a recording which language is spoken, for recordings that mix several.
//
// A model that is told one language leaves out what is said in another one, or translates it, and a
// window of 30 s may hold several. So a stretch is cut where it is quiet into parts of a few
// seconds, the model is asked for the language of each, and a window ends where the language
// changes. Called by decoder/transcriber.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "audio/mel.h"

namespace vesper {

// Cuts frames of this loudness (decoder/windows/loudness.h) at every pause, and what goes on
// for long without one where it is quietest. The first frame after each part; the last is all.
std::vector<size_t> cut_at_pauses(std::span<const float> loudness);

// What the model says of a part.
struct PartLanguages {
  double seconds;
  std::vector<float> probabilities;  // [n_languages]; none of digital silence
};

// The languages of successive parts that are likeliest together if a change is rare. A part in
// which no language is as likely as 0.6 of the threshold says nothing, and so does one without
// probabilities. `before`: what was spoken before the first, if that is known. If no part says
// anything: that one, or the language with the greatest mean; 0 if there are no probabilities.
std::vector<size_t> likeliest_languages(std::span<const PartLanguages> parts,
                                        std::optional<size_t> before, double threshold);

class MixedLanguages {
 public:
  // The model's probabilities of the languages in frames [begin, end).
  using Detect = std::function<std::vector<float>(uint64_t begin, uint64_t end)>;

  // Of frames [begin, end) of a recording.
  MixedLanguages(const MelSpectrogram& mel, uint64_t begin, uint64_t end, double threshold,
                 Detect detect);

  struct Spoken {
    size_t language;     // index
    double probability;  // 0 if nothing was heard
    uint64_t end;        // frame: where another one begins, or where `n_frames` end
  };
  // What is spoken from `seek` on, as far as the next `n_frames` tell, where `before` was spoken
  // before it. Each part is detected once.
  Spoken at(uint64_t seek, uint32_t n_frames, std::optional<size_t> before);

  uint64_t end() const { return end_; }

 private:
  struct Part {
    uint64_t begin, end;
    bool is_known = false;
    std::vector<float> probabilities = {};  // none in digital silence
  };

  const MelSpectrogram& mel_;
  uint64_t end_;
  double threshold_;
  Detect detect_;
  std::vector<Part> parts_;
};

}  // namespace vesper
