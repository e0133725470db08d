#include "vad/speech_cutting.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "audio/mel/mel.h"
#include "vad/silero_vad.h"

namespace vesper {
namespace {

// A chunk below this probability is silence.
constexpr float kSilence = 0.35f;
// The cost of a cut, relative to one more segment: 0 in a silence of kPauseFrames or more, up to
// kDearestCut within speech. A segment costs time, a cut within a sentence costs errors.
constexpr double kPauseFrames = 200, kDearestCut = 2;

// A possible end of a segment, in frames of the kept audio.
struct Cut {
  uint64_t at;
  uint64_t silence;  // frames of silence around it
  double cost() const {
    return kDearestCut * std::max(0.0, 1 - static_cast<double>(silence) / kPauseFrames);
  }
};

// The speech probability of each frame of the kept audio.
std::vector<float> kept_probabilities(std::span<const float> probabilities,
                                      std::span<const SpeechSegment> kept) {
  std::vector<float> of_frames;
  for (const SpeechSegment& segment : kept) {
    for (uint64_t frame = segment.begin; frame < segment.end; ++frame) {
      const size_t chunk = frame * kMelHop / SileroVad::kChunkSamples;
      of_frames.push_back(chunk < probabilities.size() ? probabilities[chunk] : 0.0f);
    }
  }
  return of_frames;
}

// The possible cuts: the middle of every silence. If `longest` frames have no silence, the frame in
// their second half that is least probably speech.
std::vector<Cut> cuts_of(std::span<const float> probabilities, uint64_t longest) {
  std::vector<Cut> cuts{{0, 0}};
  const auto fill_up_to = [&](uint64_t end) {
    while (end - cuts.back().at > longest) {
      const auto half = probabilities.begin() + static_cast<std::ptrdiff_t>(cuts.back().at);
      const auto least = std::min_element(half + static_cast<std::ptrdiff_t>((longest + 1) / 2),
                                          half + static_cast<std::ptrdiff_t>(longest));
      cuts.push_back({static_cast<uint64_t>(least - probabilities.begin()), 0});
    }
  };
  for (uint64_t at = 0; at < probabilities.size();) {
    uint64_t end = at;
    while (end < probabilities.size() && probabilities[end] < kSilence) ++end;
    const uint64_t middle = at + (end - at) / 2;
    if (end > at && middle > 0) {
      fill_up_to(middle);
      cuts.push_back({middle, end - at});
    }
    at = end + 1;
  }
  fill_up_to(probabilities.size());
  return cuts;
}

}  // namespace

std::vector<SpeechSegment> cut_at_silences(std::span<const float> probabilities,
                                           std::span<const SpeechSegment> kept, uint64_t longest) {
  const std::vector<float> of_frames = kept_probabilities(probabilities, kept);
  if (of_frames.empty()) return {};
  std::vector<Cut> cuts = cuts_of(of_frames, std::max<uint64_t>(longest, 2));
  cuts.push_back({of_frames.size(), static_cast<uint64_t>(kPauseFrames)});
  // Dynamic programming: the lowest cost up to each cut.
  std::vector<double> cost(cuts.size(), std::numeric_limits<double>::infinity());
  std::vector<size_t> before(cuts.size(), 0);
  cost[0] = 0;
  for (size_t to = 1, first = 0; to < cuts.size(); ++to) {
    while (cuts[to].at - cuts[first].at > std::max<uint64_t>(longest, 2)) ++first;
    for (size_t from = first; from < to; ++from) {
      const double through = cost[from] + 1 + cuts[to].cost();
      if (through < cost[to]) cost[to] = through, before[to] = from;
    }
  }
  std::vector<SpeechSegment> segments;
  for (size_t to = cuts.size() - 1; to > 0; to = before[to]) {
    SpeechSegment segment{cuts[before[to]].at, cuts[to].at, cuts[to].at};
    while (segment.speech_end > segment.begin && of_frames[segment.speech_end - 1] < kSilence) {
      --segment.speech_end;
    }
    segments.push_back(segment);
  }
  std::reverse(segments.begin(), segments.end());
  return segments;
}

}  // namespace vesper
